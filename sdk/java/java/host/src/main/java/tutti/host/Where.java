package tutti.host;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;

/** Says where each request is, when the server asks ({@code crates/worker}): a place, and up to ten callers. */
final class Where implements Runnable {
    private static final int CALLERS = 10;

    private final Open open;

    Where(Open open) {
        this.open = open;
    }

    @Override
    public void run() {
        long process = ProcessHandle.current().pid();
        try (FileOutputStream error = new FileOutputStream(FileDescriptor.err)) {
            while (true) {
                Native.where();
                StringBuilder text = new StringBuilder();
                for (Stream stream : open.streams()) {
                    Thread thread = stream.thread();
                    if (thread != null) {
                        tell(process, thread.getStackTrace(), text);
                    }
                }
                error.write(text.toString().getBytes(StandardCharsets.UTF_8));
            }
        } catch (IOException gone) {
            // There is no place to report that the log is gone.
        }
    }

    private static void tell(long process, StackTraceElement[] stack, StringBuilder text) {
        for (int index = 0; index < Math.min(stack.length, CALLERS + 1); index++) {
            text.append(index == 0 ? "process " + process + " is at " : "  called at ");
            StackTraceElement at = stack[index];
            text.append(at.getFileName());
            if (at.getLineNumber() >= 0) {
                text.append(':').append(at.getLineNumber());
            }
            text.append(" in ").append(at.getClassName()).append('.').append(at.getMethodName()).append('\n');
        }
    }
}
