package tutti.host;

import java.nio.channels.ClosedChannelException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.eclipse.jetty.io.EofException;
import org.slf4j.ILoggerFactory;
import org.slf4j.IMarkerFactory;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.Marker;
import org.slf4j.event.Level;
import org.slf4j.helpers.AbstractLogger;
import org.slf4j.helpers.BasicMarkerFactory;
import org.slf4j.helpers.MessageFormatter;
import org.slf4j.helpers.NOPMDCAdapter;
import org.slf4j.spi.MDCAdapter;
import org.slf4j.spi.SLF4JServiceProvider;

/** SLF4J's way to the daemon's log, for Jetty: warnings and errors. One that comes with an exception is an error. */
public final class LogProvider implements SLF4JServiceProvider, ILoggerFactory {
    /** SLF4J's own properties: the provider, and how much it logs about it. */
    private static final String PROVIDER = LoggerFactory.PROVIDER_PROPERTY_KEY;
    private static final String VERBOSITY = "slf4j.internal.verbosity";

    private final ConcurrentMap<String, Logger> loggers = new ConcurrentHashMap<>();
    private final IMarkerFactory markers = new BasicMarkerFactory();
    private final MDCAdapter context = new NOPMDCAdapter();

    @Override
    public Logger getLogger(String name) {
        return loggers.computeIfAbsent(name, Lines::new);
    }

    @Override
    public ILoggerFactory getLoggerFactory() {
        return this;
    }

    @Override
    public IMarkerFactory getMarkerFactory() {
        return markers;
    }

    @Override
    public MDCAdapter getMDCAdapter() {
        return context;
    }

    @Override
    public String getRequestedApiVersion() {
        return "2.0.99";
    }

    @Override
    public void initialize() {}

    /**
     * Has SLF4J, ours, find this. Not by a file in {@code META-INF/services}: the SLF4J of a web application would see that too, and complain of a
     * class that is hidden from it.
     */
    static void install() {
        String provider = System.getProperty(PROVIDER);
        String verbosity = System.getProperty(VERBOSITY);
        System.setProperty(PROVIDER, LogProvider.class.getName());
        System.setProperty(VERBOSITY, "WARN");
        LoggerFactory.getILoggerFactory();
        restore(PROVIDER, provider);
        restore(VERBOSITY, verbosity);
    }

    private static void restore(String name, String value) {
        if (value == null) {
            System.clearProperty(name);
        } else {
            System.setProperty(name, value);
        }
    }

    private static final class Lines extends AbstractLogger {
        private static final long serialVersionUID = 1;

        Lines(String name) {
            this.name = name;
        }

        @Override
        protected String getFullyQualifiedCallerName() {
            return null;
        }

        @Override
        protected void handleNormalizedLoggingCall(
                Level level, Marker marker, String pattern, Object[] arguments, Throwable error) {
            if (error instanceof ClosedChannelException || error instanceof EofException) {
                // A client has gone: Jetty logs that where a WebSocket's endpoint has no handler for it.
                return;
            }
            boolean isError = level == Level.ERROR || error != null;
            if (!isError && name.equals("org.apache.tomcat.util.descriptor.DigesterFactory")) {
                // JSP misses schemas that are for validation, which is switched off.
                return;
            }
            String message = MessageFormatter.basicArrayFormat(pattern, arguments);
            Log.write(isError ? Native.ERROR : Native.WARN, message, error);
        }

        @Override
        public boolean isTraceEnabled() {
            return false;
        }

        @Override
        public boolean isTraceEnabled(Marker marker) {
            return false;
        }

        @Override
        public boolean isDebugEnabled() {
            return false;
        }

        @Override
        public boolean isDebugEnabled(Marker marker) {
            return false;
        }

        @Override
        public boolean isInfoEnabled() {
            return false;
        }

        @Override
        public boolean isInfoEnabled(Marker marker) {
            return false;
        }

        @Override
        public boolean isWarnEnabled() {
            return true;
        }

        @Override
        public boolean isWarnEnabled(Marker marker) {
            return true;
        }

        @Override
        public boolean isErrorEnabled() {
            return true;
        }

        @Override
        public boolean isErrorEnabled(Marker marker) {
            return true;
        }
    }
}
