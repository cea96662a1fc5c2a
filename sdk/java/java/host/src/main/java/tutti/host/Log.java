package tutti.host;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

/** Lines of this host, and of Jetty in it, in the daemon's log. */
final class Log {
    private Log() {}

    static void error(String message, Throwable error) {
        write(Native.ERROR, message, error);
    }

    static void write(int level, String message, Throwable error) {
        String text = message;
        if (error != null) {
            StringWriter writer = new StringWriter();
            error.printStackTrace(new PrintWriter(writer, true));
            text = message + "\n" + writer;
        }
        try {
            Native.log(level, text.getBytes(StandardCharsets.UTF_8));
        } catch (UnsatisfiedLinkError rehearsal) {
            System.err.println(text);
        }
    }
}
