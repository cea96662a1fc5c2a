import com.fasterxml.jackson.databind.ObjectMapper;
import jakarta.servlet.annotation.WebServlet;
import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** The endpoints of HttpArena as servlets. */
public final class Arena {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Arena() {}

    /** An item of the data set, as it is stored. */
    public record Item(int id, String name, String category, long price, long quantity, boolean active, List<String> tags, Rating rating) {
        Listed listed(long factor) {
            return new Listed(id, name, category, price, quantity, active, tags, rating, price * quantity * factor);
        }
    }

    /** The rating of an item. */
    public record Rating(int score, int count) {}

    /** An item with its total. */
    public record Listed(
            int id, String name, String category, long price, long quantity, boolean active, List<String> tags, Rating rating, long total) {}

    /** The answer about several items. */
    public record Page(List<Listed> items, int count) {}

    private static long number(HttpServletRequest request, String name, long otherwise) {
        String value = request.getParameter(name);
        return value == null ? otherwise : Long.parseLong(value);
    }

    private static long sum(HttpServletRequest request) {
        return number(request, "a", 0) + number(request, "b", 0);
    }

    private static void text(HttpServletResponse response, Object body) throws IOException {
        response.setContentType("text/plain");
        response.getWriter().print(body);
    }

    /** The sum of the query's numbers and, for POST, the body's. */
    @WebServlet("/baseline11")
    public static class Baseline11 extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            text(response, sum(request));
        }

        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            String body = new String(request.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            text(response, sum(request) + Long.parseLong(body.strip()));
        }
    }

    /** The sum of the query's numbers. */
    @WebServlet("/baseline2")
    public static class Baseline2 extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            text(response, sum(request));
        }
    }

    /** A constant. */
    @WebServlet("/pipeline")
    public static class Pipeline extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            text(response, "ok");
        }
    }

    /** The first items, each with its total. */
    @WebServlet("/json/*")
    public static class Items extends HttpServlet {
        private static final long serialVersionUID = 1;
        private transient List<Item> items;

        @Override
        public void init() {
            try {
                items = List.of(JSON.readValue(new File(System.getenv("DATASET")), Item[].class));
            } catch (IOException error) {
                throw new IllegalStateException("DATASET cannot be read", error);
            }
        }

        @Override
        protected void doGet(HttpServletRequest request, HttpServletResponse response) throws IOException {
            int count = Math.min(items.size(), Integer.parseInt(request.getPathInfo().substring(1)));
            long factor = number(request, "m", 1);
            List<Listed> chosen = items.subList(0, count).stream().map(item -> item.listed(factor)).toList();
            response.setContentType("application/json");
            JSON.writeValue(response.getOutputStream(), new Page(chosen, chosen.size()));
        }
    }

    /** The number of bytes that were sent. */
    @WebServlet("/upload")
    public static class Upload extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void doPost(HttpServletRequest request, HttpServletResponse response) throws IOException {
            byte[] part = new byte[65536];
            long received = 0;
            InputStream body = request.getInputStream();
            for (int read = body.read(part); read >= 0; read = body.read(part)) {
                received += read;
            }
            text(response, received);
        }
    }
}
