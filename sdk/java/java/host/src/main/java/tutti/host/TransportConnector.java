package tutti.host;

import org.eclipse.jetty.server.AbstractConnector;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Server;

/** A connector without a socket: its requests are taken by {@link Taker}s. */
final class TransportConnector extends AbstractConnector {
    private final HttpConfiguration configuration;

    TransportConnector(Server server, HttpConfiguration configuration) {
        // Jetty looks for the configuration in a connector's factories; no connection is ever made by this one.
        super(server, null, null, null, 0, new HttpConnectionFactory(configuration));
        this.configuration = configuration;
    }

    HttpConfiguration configuration() {
        return configuration;
    }

    @Override
    protected void accept(int acceptor) {
        throw new IllegalStateException("there is nothing to accept from");
    }

    @Override
    public Object getTransport() {
        return null;
    }
}
