import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Tells which request a servlet is given. */
@WebServlet("/*")
public class Seen extends HttpServlet {
    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String query = request.getQueryString();
        String target = request.getRequestURI() + (query == null ? "" : "?" + query);
        String body = new String(request.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1);
        String stamp = request.getHeader("X-Router");
        response.setContentType("application/json;charset=UTF-8");
        response.getWriter().print("{\"stamp\": " + text(stamp == null ? "" : stamp) + ", \"method\": " + text(request.getMethod())
                + ", \"target\": " + text(target) + ", \"body\": " + text(body) + "}\n");
    }

    private static String text(String value) {
        StringBuilder text = new StringBuilder("\"");
        for (char letter : value.toCharArray()) {
            text.append(letter < ' ' || letter == '"' || letter == '\\' || letter > '~' ? String.format("\\u%04x", (int) letter) : letter);
        }
        return text.append('"').toString();
    }
}
