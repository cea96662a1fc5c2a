package tutti.host;

import java.nio.charset.StandardCharsets;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The reason why a web application does not start: problem, cure, and the option that is to blame. */
record Failure(String message, String hint, String member) {
    /** `… has been compiled by a more recent version of the Java Runtime (class file version 65.0), …`. */
    private static final Pattern TOO_NEW = Pattern.compile("(\\S+) has been compiled by .*?class file version (\\d+)");

    /** The same, of the library that looks for annotations, and what Jetty says of the file. */
    private static final Pattern UNREADABLE = Pattern.compile("Unsupported class file major version (\\d+)");

    private static final Pattern FILE = Pattern.compile("Unable to parse class: \\w+:/*(\\S+)");

    /** Versions of class files are so much above those of Java (JVMS 4.1, table 4.1-A). */
    private static final int ABOVE = 44;

    static Failure of(Throwable error, String generation) {
        Throwable root = error;
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            root = cause;
            if (cause instanceof UnsupportedClassVersionError) {
                return tooNew(cause);
            }
            Matcher unreadable = UNREADABLE.matcher(String.valueOf(cause.getMessage()));
            if (unreadable.matches()) {
                return tooNew(file(error), Integer.parseInt(unreadable.group(1)) - ABOVE);
            }
            if (cause instanceof OutOfMemoryError) {
                return new Failure(
                        cause + ", while the web application was started",
                        "give it a larger heap: \"options\": [\"-Xmx1g\"]; `limits.memory` and a cgroup bound it too",
                        "options");
            }
        }
        if (root instanceof IllegalStateException && String.valueOf(root.getMessage()).startsWith("No LoginService for ")) {
            return new Failure(
                    "its `web.xml` has people log in (`login-config`), and nothing says who they are",
                    "name a login service in `WEB-INF/jetty-web.xml`: what was a `Realm` in Tomcat's `server.xml`",
                    "webapp");
        }
        String message = root + at(root);
        if (root instanceof ClassNotFoundException || root instanceof NoClassDefFoundError) {
            String name = String.valueOf(root.getMessage()).replace('/', '.');
            boolean wantsJavax = name.matches("javax\\.(servlet|websocket)\\..*") && !generation.equals("ee8");
            boolean wantsJakarta = name.matches("jakarta\\.(servlet|websocket)\\..*") && generation.equals("ee8");
            if (wantsJavax || wantsJakarta) {
                String version = wantsJavax ? "4.0" : "6.0";
                return new Failure(message, "it is made for another servlet API: \"servlet\": \"" + version + "\"", "servlet");
            }
            return new Failure(
                    message, "add the library that has this class to `WEB-INF/lib` or to `classpath`", "webapp");
        }
        return new Failure(message, "the log has the whole exception", "webapp");
    }

    private static Failure tooNew(Throwable cause) {
        Matcher matcher = TOO_NEW.matcher(String.valueOf(cause.getMessage()));
        if (matcher.find()) {
            return tooNew(matcher.group(1).replace('/', '.'), Integer.parseInt(matcher.group(2)) - ABOVE);
        }
        return new Failure(cause.toString(), "name a later Java: \"java_home\": \"/usr/lib/jvm/…\"", "java_home");
    }

    /** The class file that could not be looked at. */
    private static String file(Throwable error) {
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            Matcher matcher = FILE.matcher(String.valueOf(cause.getMessage()));
            if (matcher.find()) {
                return "/" + matcher.group(1);
            }
        }
        return "a class";
    }

    private static Failure tooNew(String name, int needs) {
        int runs = Runtime.version().feature();
        String what = "`" + name + "` is compiled for Java " + needs + ", and this is Java " + runs;
        String hint = "name a Java " + needs + " or later: \"java_home\": \"/usr/lib/jvm/java-" + needs
                + "-openjdk-amd64\", or compile with `--release " + runs + "`";
        return new Failure(what, hint, "java_home");
    }

    /** The place where it was thrown, in the application's own code if any of it was called. */
    private static String at(Throwable error) {
        for (StackTraceElement element : error.getStackTrace()) {
            String name = element.getClassName();
            boolean isOurs = name.startsWith("java.")
                    || name.startsWith("javax.")
                    || name.startsWith("jakarta.")
                    || name.startsWith("jdk.")
                    || name.startsWith("sun.")
                    || name.startsWith("tutti.")
                    || name.startsWith("org.eclipse.jetty.");
            if (!isOurs) {
                return " at " + element.getFileName() + ":" + element.getLineNumber() + " in " + name + "."
                        + element.getMethodName();
            }
        }
        return "";
    }

    byte[] bytes() {
        return String.join("\0", message, hint, member).getBytes(StandardCharsets.UTF_8);
    }
}
