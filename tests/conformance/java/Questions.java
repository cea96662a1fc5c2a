import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import javax.servlet.AsyncContext;
import javax.servlet.AsyncEvent;
import javax.servlet.AsyncListener;
import javax.servlet.ReadListener;
import javax.servlet.ServletException;
import javax.servlet.ServletInputStream;
import javax.servlet.ServletOutputStream;
import javax.servlet.WriteListener;
import javax.servlet.annotation.MultipartConfig;
import javax.servlet.annotation.WebServlet;
import javax.servlet.http.Cookie;
import javax.servlet.http.HttpServlet;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import javax.servlet.http.HttpSession;

/** The promises of the servlet API and of the guide: each path is one question, answered by the method of its name. Compiled as it is, and as {@code jakarta.servlet}. */
@WebServlet(urlPatterns = "/q/*", asyncSupported = true)
@MultipartConfig
public class Questions extends HttpServlet {
    private static final long serialVersionUID = 1;
    private static final CountDownLatch MET = new CountDownLatch(2);
    private static final AtomicInteger SERVED = new AtomicInteger();

    @Override
    protected void service(HttpServletRequest request, HttpServletResponse response) throws ServletException, IOException {
        String question = request.getPathInfo().substring(1);
        try {
            getClass()
                    .getDeclaredMethod(question, HttpServletRequest.class, HttpServletResponse.class)
                    .invoke(this, request, response);
        } catch (NoSuchMethodException none) {
            response.sendError(404, question);
        } catch (java.lang.reflect.InvocationTargetException thrown) {
            Questions.<RuntimeException>rethrow(thrown.getCause());
        } catch (IllegalAccessException impossible) {
            throw new ServletException(impossible);
        }
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> void rethrow(Throwable error) throws T {
        throw (T) error;
    }

    private static Path work(String name) {
        return Path.of(System.getenv("WORK"), name);
    }

    static void note(String name, String text) throws IOException {
        Files.writeString(work(name), text + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    private static void awaitFile(String name) throws InterruptedException {
        while (!Files.exists(work(name))) {
            Thread.sleep(5);
        }
    }

    private static String quoted(Object value) {
        return value == null ? "null" : '"' + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    void places(HttpServletRequest request, HttpServletResponse response) throws IOException {
        var context = getServletContext();
        PrintWriter writer = response.getWriter();
        writer.println(context.getRealPath("/"));
        writer.println(context.getRealPath("/not/yet"));
        writer.println(context.getResourcePaths("/files/"));
        writer.println(context.getResourcePaths("/not/"));
    }

    void attributes(HttpServletRequest request, HttpServletResponse response) throws IOException {
        request.setAttribute("given", "value");
        request.setAttribute("given", null);
        getServletContext().setAttribute("shared", null);
        boolean isThere = Collections.list(request.getAttributeNames()).contains("given")
                || Collections.list(getServletContext().getAttributeNames()).contains("shared");
        response.setContentType("text/plain");
        response.getWriter().print(isThere ? "there" : "gone");
    }

    void named(HttpServletRequest request, HttpServletResponse response) throws ServletException, IOException {
        String name = getServletContext().getServletRegistrations().entrySet().stream()
                .filter(entry -> entry.getValue().getClassName().equals("Named"))
                .findFirst().orElseThrow().getKey();
        getServletContext().getNamedDispatcher(name).forward(request, response);
        response.getWriter().print(" and more");
    }

    void cyrillic(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setHeader("X-\u0418\u043c\u044f", "value");
        response.getWriter().print("never sent");
    }

    void hello(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setContentType("text/plain");
        response.getWriter().print("hello");
    }

    void env(HttpServletRequest request, HttpServletResponse response) throws IOException {
        List<String> cookies = new ArrayList<>();
        if (request.getCookies() != null) {
            for (Cookie cookie : request.getCookies()) {
                cookies.add(cookie.getName() + "=" + cookie.getValue());
            }
        }
        Object[] members = {
            "method", request.getMethod(), "uri", request.getRequestURI(), "url", request.getRequestURL(),
            "context", request.getContextPath(), "servlet", request.getServletPath(), "path", request.getPathInfo(),
            "query", request.getQueryString(), "protocol", request.getProtocol(), "scheme", request.getScheme(),
            "secure", request.isSecure(), "server", request.getServerName(), "server_port", request.getServerPort(),
            "remote", request.getRemoteAddr(), "local", request.getLocalAddr(), "local_port", request.getLocalPort(),
            "type", request.getContentType(), "length", request.getContentLengthLong(), "parameter", request.getParameter("x"),
            "fields", String.join("|", Collections.list(request.getHeaders("X-Field"))), "cookies", String.join("|", cookies),
            "major", request.getServletContext().getEffectiveMajorVersion(), "encoding", java.nio.charset.Charset.defaultCharset(),
            "locale", request.getLocale(), "has_remote_port", request.getRemotePort() > 0,
            "java", Runtime.version().feature(), "thread", Thread.currentThread().getName(), "virtual", Thread.currentThread().toString().contains("Virtual"),
        };
        StringBuilder text = new StringBuilder("{");
        for (int index = 0; index < members.length; index += 2) {
            text.append(index == 0 ? "" : ", ").append(quoted(members[index])).append(": ").append(quoted(members[index + 1]));
        }
        response.setContentType("application/json");
        response.getWriter().print(text + "}");
    }

    void digest(HttpServletRequest request, HttpServletResponse response) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        InputStream body = request.getInputStream();
        byte[] piece = new byte[10_000];
        long length = 0;
        for (int count; (count = body.read(piece)) >= 0; length += count) {
            digest.update(piece, 0, count);
        }
        response.getWriter().print(length + " " + HexFormat.of().formatHex(digest.digest()));
    }

    void echo(HttpServletRequest request, HttpServletResponse response) throws IOException {
        BufferedReader lines = request.getReader();
        PrintWriter answer = response.getWriter();
        for (String line; (line = lines.readLine()) != null; ) {
            answer.print("<" + line + ">");
            answer.flush();
        }
    }

    void form(HttpServletRequest request, HttpServletResponse response) throws Exception {
        boolean isUpload = String.valueOf(request.getContentType()).startsWith("multipart/");
        String size = isUpload ? String.valueOf(request.getPart("file").getSize()) : "";
        response.getWriter().print(request.getParameter("word") + " " + size);
    }

    void large(HttpServletRequest request, HttpServletResponse response) throws IOException {
        int size = Integer.parseInt(request.getParameter("size"));
        byte[] bytes = new byte[size];
        for (int index = 0; index < size; index++) {
            bytes[index] = (byte) (index % 251);
        }
        response.getOutputStream().write(bytes);
    }

    void slow(HttpServletRequest request, HttpServletResponse response) throws Exception {
        response.getWriter().print("first ");
        response.flushBuffer();
        awaitFile("go");
        response.getWriter().print("second");
    }

    void fields(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.setStatus(201);
        response.addHeader("X-Many", "one");
        response.addHeader("X-Many", "two");
        response.addCookie(new Cookie("a", "1"));
        response.addCookie(new Cookie("b", "2"));
        response.setContentType("text/plain; charset=utf-8");
        response.getWriter().print("caf\u00e9");
    }

    void letter(HttpServletRequest request, HttpServletResponse response) throws IOException {
        // Its low byte is that of a line end.
        response.setHeader("X-Letter", "a\u010ab");
        response.getWriter().print("sent");
    }

    void error(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.sendError(403, "not for you");
    }

    void redirect(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.sendRedirect("/q/hello");
    }

    void raises(HttpServletRequest request, HttpServletResponse response) {
        throw new IllegalStateException("no such thing", new java.util.NoSuchElementException("inner"));
    }

    void deep(HttpServletRequest request, HttpServletResponse response) {
        deep(request, response);
    }

    void late(HttpServletRequest request, HttpServletResponse response) throws Exception {
        response.getWriter().print("begun");
        response.flushBuffer();
        awaitFile("go");
        throw new IllegalStateException("in the middle");
    }

    void heap(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.getWriter().print(Runtime.getRuntime().maxMemory());
    }

    void thread(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.getWriter().print(Thread.currentThread() + " of Java " + Runtime.version().feature());
    }

    void memory(HttpServletRequest request, HttpServletResponse response) throws IOException {
        List<long[]> all = new ArrayList<>();
        while (true) {
            all.add(new long[1 << 20]);
        }
    }

    void session(HttpServletRequest request, HttpServletResponse response) throws IOException {
        HttpSession session = request.getSession();
        int count = session.getAttribute("count") instanceof Integer before ? before + 1 : 1;
        session.setAttribute("count", count);
        response.getWriter().print("visit " + count);
    }

    void pid(HttpServletRequest request, HttpServletResponse response) throws IOException {
        response.getWriter().print(ProcessHandle.current().pid());
    }

    void meet(HttpServletRequest request, HttpServletResponse response) throws Exception {
        MET.countDown();
        boolean isMet = MET.await(60, TimeUnit.SECONDS);
        response.getWriter().print(isMet + " " + ProcessHandle.current().pid());
    }

    void async(HttpServletRequest request, HttpServletResponse response) throws IOException {
        AsyncContext context = request.startAsync();
        context.setTimeout(0);
        note("async", "begun");
        new Thread(() -> {
            try {
                awaitFile("go");
                response.getWriter().print("from " + Thread.currentThread().getName());
            } catch (IOException | InterruptedException error) {
                throw new IllegalStateException(error);
            }
            context.complete();
        }, "another thread").start();
    }

    void dispatched(HttpServletRequest request, HttpServletResponse response) throws IOException {
        if (request.getAttribute("again") == null) {
            request.setAttribute("again", true);
            request.startAsync().dispatch();
        } else {
            response.getWriter().print("dispatched");
        }
    }

    void timeout(HttpServletRequest request, HttpServletResponse response) throws IOException {
        AsyncContext context = request.startAsync();
        context.setTimeout(100);
    }

    /** Waits for ever, and notes what becomes of it. */
    void abandoned(HttpServletRequest request, HttpServletResponse response) throws IOException {
        AsyncContext context = request.startAsync();
        context.setTimeout(0);
        context.addListener(new AsyncListener() {
            @Override
            public void onComplete(AsyncEvent event) throws IOException {
                note("abandoned", "complete");
            }

            @Override
            public void onTimeout(AsyncEvent event) throws IOException {
                note("abandoned", "timeout");
            }

            @Override
            public void onError(AsyncEvent event) throws IOException {
                note("abandoned", "error");
                event.getAsyncContext().complete();
            }

            @Override
            public void onStartAsync(AsyncEvent event) {}
        });
        response.getWriter().print("waiting");
        response.flushBuffer();
    }

    /** Reads and writes without ever waiting. */
    void listener(HttpServletRequest request, HttpServletResponse response) throws IOException {
        AsyncContext context = request.startAsync();
        context.setTimeout(0);
        ServletInputStream input = request.getInputStream();
        ServletOutputStream output = response.getOutputStream();
        List<byte[]> pieces = new ArrayList<>();
        input.setReadListener(new ReadListener() {
            @Override
            public void onDataAvailable() throws IOException {
                byte[] piece = new byte[1000];
                while (input.isReady()) {
                    int count = input.read(piece);
                    if (count < 0) {
                        return;
                    }
                    pieces.add(java.util.Arrays.copyOf(piece, count));
                }
            }

            @Override
            public void onAllDataRead() {
                output.setWriteListener(new WriteListener() {
                    private int next;

                    @Override
                    public void onWritePossible() throws IOException {
                        while (output.isReady()) {
                            if (next == pieces.size()) {
                                context.complete();
                                return;
                            }
                            output.write(pieces.get(next++));
                        }
                    }

                    @Override
                    public void onError(Throwable error) {
                        context.complete();
                    }
                });
            }

            @Override
            public void onError(Throwable error) {
                context.complete();
            }
        });
    }

    void endless(HttpServletRequest request, HttpServletResponse response) throws IOException {
        byte[] piece = "x".repeat(10_000).getBytes(StandardCharsets.US_ASCII);
        try {
            while (true) {
                response.getOutputStream().write(piece);
            }
        } catch (IOException error) {
            note("endless", "gone");
            throw error;
        }
    }

    void hangs(HttpServletRequest request, HttpServletResponse response) throws IOException {
        note("hanging", String.valueOf(ProcessHandle.current().pid()));
        outer();
    }

    private static void outer() {
        inner();
    }

    private static void inner() {
        long count = 0;
        while (count >= 0) {
            count = (count + 1) & 0xffff;
        }
    }

    void exits(HttpServletRequest request, HttpServletResponse response) {
        System.exit(3);
    }

    void halts(HttpServletRequest request, HttpServletResponse response) {
        Runtime.getRuntime().halt(4);
    }

    void sometimes(HttpServletRequest request, HttpServletResponse response) throws IOException {
        int count = SERVED.incrementAndGet();
        if (count % 40 == 0) {
            exits(request, response);
        } else if (count % 25 == 0) {
            halts(request, response);
        }
        hello(request, response);
    }

    void logs(HttpServletRequest request, HttpServletResponse response) throws IOException {
        System.err.println("to standard error");
        System.out.println("to standard output");
        getServletContext().log("to the context's log", new IllegalStateException("with an exception"));
        response.getWriter().print("logged");
    }

    void library(HttpServletRequest request, HttpServletResponse response) throws IOException {
        try {
            response.getWriter().print(Class.forName("Library").getMethod("word").invoke(null));
        } catch (ReflectiveOperationException none) {
            response.getWriter().print("there is no such library");
        }
    }

    void hidden(HttpServletRequest request, HttpServletResponse response) throws IOException {
        for (String name : List.of("tutti.host.Main", "org.eclipse.jetty.server.Server", "org.slf4j.Logger")) {
            try {
                getClass().getClassLoader().loadClass(name);
                response.getWriter().print("sees " + name);
            } catch (ClassNotFoundException none) {
                response.getWriter().print("no ");
            }
        }
    }
}
