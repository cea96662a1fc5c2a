import jakarta.servlet.ServletContextEvent;
import jakarta.servlet.ServletContextListener;
import jakarta.servlet.annotation.WebListener;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** Tells the release, or does not start: the tests replace these words in the class. */
@WebListener
@WebServlet("/*")
public class Page extends HttpServlet implements ServletContextListener {
    private static final long serialVersionUID = 1;
    private static String start = "start:serve";

    @Override
    public void contextInitialized(ServletContextEvent event) {
        if (start.endsWith("throw")) {
            throw new IllegalStateException("no database");
        }
        if (start.endsWith("abort")) {
            String pid = String.valueOf(ProcessHandle.current().pid());
            try {
                new ProcessBuilder("kill", "-ABRT", pid).start().waitFor();
                Thread.sleep(60_000);
            } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.getWriter().print("release 1");
    }
}
