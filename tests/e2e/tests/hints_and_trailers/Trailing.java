import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.Map;

/** Answers with early hints, and with a field behind its body. */
@WebServlet("/")
public class Trailing extends HttpServlet {
    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setHeader("Link", "</a.css>; rel=preload; as=style");
        response.sendError(103);
        response.setHeader("Trailer", "X-Sum");
        response.setTrailerFields(() -> Map.of("X-Sum", "5"));
        response.getOutputStream().print("whole");
    }
}
