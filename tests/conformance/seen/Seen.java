import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** Tells what a servlet sees of a request, as the applications beside it do in their languages. */
@WebServlet("/*")
public class Seen extends HttpServlet {
    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
        String query = request.getQueryString();
        String uri = request.getRequestURI() + (query == null ? "" : "?" + query);
        response.setContentType("application/json;charset=UTF-8");
        response.getWriter().print("{\"uri\": " + text(uri) + ", \"path\": " + text(request.getPathInfo()) + ", \"fields\": {}}");
    }

    private static String text(String value) {
        return value == null ? "null" : '"' + value.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }
}
