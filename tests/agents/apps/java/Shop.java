import jakarta.servlet.ServletException;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

@WebServlet({"/items/*", "/fails"})
public class Shop extends HttpServlet {
    @Override
    protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException, ServletException {
        if (request.getPathInfo() == null) {
            throw new ServletException("out of stock");
        }
        int number = Integer.parseInt(request.getPathInfo().substring(1));
        response.getWriter().println("item " + number + ", " + twice(number));
    }

    private int twice(int number) {
        int doubled = number * 2;
        return doubled;
    }

    private String never() {
        return "not called";
    }
}
