import org.eclipse.jetty.ee10.webapp.WebAppContext;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.thread.QueuedThreadPool;

/** Jetty with its own sockets and HTTP: the host, the port, the web application. Says "started" when it takes requests: it listens before. */
public class Plain {
    public static void main(String[] arguments) throws Exception {
        Server server = new Server(new QueuedThreadPool());
        ServerConnector connector = new ServerConnector(server);
        connector.setHost(arguments[0]);
        connector.setPort(Integer.parseInt(arguments[1]));
        connector.setAcceptQueueSize(4096);
        server.addConnector(connector);
        WebAppContext webapp = new WebAppContext();
        webapp.setContextPath("/");
        webapp.setWar(arguments[2]);
        server.setHandler(webapp);
        server.start();
        System.out.println("started");
        server.join();
    }
}
