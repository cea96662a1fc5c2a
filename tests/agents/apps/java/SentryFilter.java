import io.sentry.ITransaction;
import io.sentry.Sentry;
import io.sentry.SpanStatus;
import jakarta.servlet.FilterChain;
import jakarta.servlet.FilterConfig;
import jakarta.servlet.ServletException;
import jakarta.servlet.annotation.WebFilter;
import jakarta.servlet.http.HttpFilter;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;

/** A transaction for each request, and an event for each exception. */
@WebFilter("/*")
public class SentryFilter extends HttpFilter {
    @Override
    public void init(FilterConfig configuration) {
        Sentry.init(options -> {
            options.setDsn(System.getenv("SENTRY_DSN"));
            options.setTracesSampleRate(1.0);
        });
    }

    @Override
    protected void doFilter(HttpServletRequest request, HttpServletResponse response, FilterChain chain)
            throws IOException, ServletException {
        ITransaction transaction = Sentry.startTransaction(request.getMethod() + " " + request.getServletPath(), "http.server");
        try {
            chain.doFilter(request, response);
            transaction.setStatus(SpanStatus.fromHttpStatusCode(response.getStatus()));
        } catch (IOException | ServletException | RuntimeException error) {
            Sentry.captureException(error);
            transaction.setStatus(SpanStatus.INTERNAL_ERROR);
            throw error;
        } finally {
            transaction.finish();
        }
    }

    @Override
    public void destroy() {
        Sentry.close();
    }
}
