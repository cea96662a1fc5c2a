import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** The configuration's effect on this process; {@code /hold} answers when there is a file {@code go}. */
@WebServlet("/*")
public class Options extends HttpServlet {
    private static final long serialVersionUID = 1;

    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        Path work = Path.of(System.getenv("WORK"));
        long pid = ProcessHandle.current().pid();
        if ("/hold".equals(request.getPathInfo())) {
            Files.writeString(work.resolve("at-" + pid), "");
            while (!Files.exists(work.resolve("go"))) {
                pause();
            }
        }
        System.out.println("to stdout");
        System.err.println("to stderr");
        response.setContentType("application/json; charset=utf-8");
        response.getWriter()
                .printf(
                        "{\"pid\": %d, \"uid\": %s, \"gid\": %s, \"folder\": \"%s\", \"colour\": \"%s\", \"home\": \"%s\"}",
                        pid, effective("Uid:"), effective("Gid:"), Path.of("").toAbsolutePath(), System.getenv("COLOUR"), System.getenv("HOME"));
    }

    private static void pause() {
        try {
            Thread.sleep(10);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** The second of the numbers (proc_pid_status(5)). */
    private static String effective(String name) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith(name)) {
                return line.split("\\s+")[2];
            }
        }
        throw new IOException("no " + name);
    }
}
