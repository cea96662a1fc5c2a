import java.io.IOException;
import java.io.UncheckedIOException;
import javax.servlet.ServletContextEvent;
import javax.servlet.ServletContextListener;
import javax.servlet.annotation.WebListener;

/** Notes when the application starts and stops; does not start when its configuration says so. */
@WebListener
public class Life implements ServletContextListener {
    @Override
    public void contextInitialized(ServletContextEvent event) {
        String failure = System.getProperty("failure");
        if ("memory".equals(failure)) {
            java.util.List<long[]> all = new java.util.ArrayList<>();
            while (true) {
                all.add(new long[1 << 20]);
            }
        }
        if (failure != null) {
            throw new IllegalStateException(failure);
        }
        note("started");
    }

    @Override
    public void contextDestroyed(ServletContextEvent event) {
        note("stopped");
    }

    private static void note(String text) {
        try {
            Questions.note("life", text + " " + ProcessHandle.current().pid());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
