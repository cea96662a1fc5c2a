package tutti.host.generation;

import java.util.Set;
import org.eclipse.jetty.@JETTY@.servlet.ServletContextHandler;
import org.eclipse.jetty.@JETTY@.webapp.WebAppContext;
import org.eclipse.jetty.util.URIUtil;

/**
 * The web application with a servlet context that is as its interface says. Made for each generation of Jetty's servlets whose context is a handler of its own (`packaging/build-java` puts
 * its name in).
 */
public final class Context extends WebAppContext {
    @Override
    public ServletContextHandler.ServletContextApi newServletContextApi() {
        return new Api();
    }

    private final class Api extends ServletApiContext {
        /** The place of a path in the file system, also of one that is not there yet. */
        @Override
        public String getRealPath(String path) {
            String real = super.getRealPath(path);
            String canonical = real == null && path != null ? URIUtil.canonicalPath(path) : null;
            if (canonical == null || getBaseResource() == null || getBaseResource().getPath() == null) {
                return real;
            }
            return getBaseResource().getPath().resolve(canonical.replaceFirst("^/+", "")).toString();
        }

        /** The resources below a path; null where that is no folder. */
        @Override
        public Set<String> getResourcePaths(String path) {
            Set<String> paths = super.getResourcePaths(path);
            return paths == null || paths.isEmpty() ? null : paths;
        }
    }
}
