package tutti.host.generation;

import java.util.Set;
import javax.security.auth.Subject;
import org.eclipse.jetty.@JETTY@.servlet.ServletContextHandler;
import org.eclipse.jetty.@JETTY@.servlet.ServletHandler;
import org.eclipse.jetty.@JETTY@.webapp.WebAppContext;
import org.eclipse.jetty.security.AuthenticationState;
import org.eclipse.jetty.security.UserIdentity;
import org.eclipse.jetty.security.authentication.LoginAuthenticator;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;
import org.eclipse.jetty.util.URIUtil;
import tutti.host.User;

/**
 * The web application with a servlet context that is as its interface says, and with the server's users. Made for each generation of Jetty's servlets whose context is a handler of its own (`packaging/build-java` puts
 * its name in).
 */
public final class Context extends WebAppContext {
    @Override
    public ServletContextHandler.ServletContextApi newServletContextApi() {
        return new Api();
    }

    @Override
    protected ServletHandler newServletHandler() {
        return new Servlets();
    }

    /**
     * Stands behind the application's own login: where it has one, it alone says who its users are. So the server's users never pass a constraint of the
     * application.
     */
    private static final class Servlets extends ServletHandler {
        @Override
        public boolean handle(Request request, Response response, Callback callback) throws Exception {
            User user = User.of(request);
            if (user != null && AuthenticationState.getAuthenticationState(request) == null) {
                UserIdentity identity = UserIdentity.from(new Subject(), user);
                AuthenticationState state = new LoginAuthenticator.UserAuthenticationSucceeded(null, identity);
                AuthenticationState.setAuthenticationState(request, state);
            }
            return super.handle(request, response, callback);
        }
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
