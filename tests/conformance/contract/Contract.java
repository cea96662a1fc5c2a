import jakarta.servlet.ServletException;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import jakarta.websocket.OnMessage;
import jakarta.websocket.server.ServerEndpoint;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Collections;
import java.util.Map;

/** The application of the language contract (`tests/e2e/tests/contract.rs`) in Java. */
@WebServlet("/")
public class Contract extends HttpServlet {
    private static byte[] grown;

    /** Echoes texts. */
    @ServerEndpoint("/talk")
    public static class Talk {
        @OnMessage
        public String heard(String said) {
            return "heard: " + said;
        }
    }

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws ServletException, IOException {
        OutputStream out = response.getOutputStream();
        switch (request.getRequestURI()) {
            case "/" -> {
                response.setContentType("text/plain");
                out.write("Hello from Java\n".getBytes());
            }
            case "/body" -> echo(request.getInputStream(), out);
            case "/head" -> {
                response.setStatus(201);
                response.addHeader("Set-Cookie", "a=1");
                response.addHeader("Set-Cookie", "b=2");
                response.setHeader("X-Empty", "");
                response.setHeader("X-Back", request.getHeader("X-Long"));
                out.write(String.join(", ", Collections.list(request.getHeaders("X-Seen"))).getBytes());
            }
            case "/hints" -> {
                response.setHeader("Link", "</a.css>; rel=preload; as=style");
                response.sendError(103);
                response.setHeader("Trailer", "X-Sum");
                response.setTrailerFields(() -> Map.of("X-Sum", "5"));
                out.write("whole".getBytes());
            }
            case "/slow" -> {
                out.write("first\n".getBytes());
                response.flushBuffer();
                while (!Files.exists(Path.of(System.getenv("WORK"), "go"))) {
                    pause(5);
                }
                out.write("second\n".getBytes());
            }
            case "/endless" -> {
                byte[] piece = new byte[65536];
                Arrays.fill(piece, (byte) 'x');
                while (true) {
                    out.write(piece);
                }
            }
            case "/fails" -> throw new IllegalStateException("asked to fail");
            case "/ends" -> Runtime.getRuntime().halt(4);
            case "/hangs" -> hang();
            case "/grows" -> {
                grown = new byte[200 << 20];
                Arrays.fill(grown, (byte) 'x');
                pause(500);
                out.write("grown".getBytes());
            }
            default -> response.sendError(404);
        }
    }

    private static void echo(InputStream in, OutputStream out) throws IOException {
        byte[] piece = new byte[8192];
        try {
            for (int count; (count = in.read(piece)) >= 0;) {
                out.write(piece, 0, count);
                out.flush();
            }
        } catch (IOException gone) {
            System.err.println("cut short");
            throw gone;
        }
    }

    private static void hang() {
        while (true) {
            pause(10);
        }
    }

    private static void pause(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException stopped) {
            throw new IllegalStateException(stopped);
        }
    }
}
