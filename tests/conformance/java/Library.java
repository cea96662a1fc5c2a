/** A library beside the application, for `classpath`. */
public class Library {
    public static String word() {
        return "found";
    }
}
