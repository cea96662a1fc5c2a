package tutti.host;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.eclipse.jetty.server.LocalConnector;

/** Uses what every start and every request uses, for the archive of classes that {@code packaging/build-java} makes of it. */
public final class Rehearsal {
    /** Classes that only requests of the transport use. */
    private static final String[] OURS = {"Head", "Line", "Stream", "Stream$ResponseHead", "Socket", "Taker", "User", "Where", "Failure"};

    private Rehearsal() {}

    /** Runs an empty web application of the servlet generation {@code arguments[0]} once. */
    public static void main(String[] arguments) throws Exception {
        Path folder = Files.createTempDirectory("tutti-rehearsal-");
        Path webapp = Files.createDirectories(folder.resolve("webapp/WEB-INF")).getParent();
        Files.writeString(webapp.resolve("index.html"), "hello");
        String settings = String.join(
                "\0", "generation=" + arguments[0], "webapp=" + webapp, "folder=" + folder.resolve("work"), "classpath=",
                "stack=0", "virtual=false");
        byte[] failure = Main.start(settings.getBytes(StandardCharsets.UTF_8));
        if (failure != null) {
            throw new IllegalStateException(new String(failure, StandardCharsets.UTF_8));
        }
        LocalConnector connector = new LocalConnector(Main.server());
        Main.server().addConnector(connector);
        connector.start();
        String answer = connector.getResponse("GET / HTTP/1.0\r\n\r\n");
        if (!answer.endsWith("hello")) {
            throw new IllegalStateException(answer);
        }
        for (String name : OURS) {
            Class.forName("tutti.host." + name, false, Rehearsal.class.getClassLoader());
        }
        Main.server().stop();
        delete(folder.toFile());
        System.exit(0);
    }

    private static void delete(File file) {
        File[] inside = file.listFiles();
        if (inside != null) {
            for (File one : inside) {
                delete(one);
            }
        }
        file.delete();
    }
}
