package tutti.host;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The settings that the Rust part gives ({@code lifecycle.rs}): names and values, with NUL between. */
final class Settings {
    private final Map<String, String> values = new HashMap<>();

    Settings(byte[] bytes) {
        for (String member : new String(bytes, StandardCharsets.UTF_8).split("\0")) {
            int at = member.indexOf('=');
            values.put(member.substring(0, at), member.substring(at + 1));
        }
    }

    /** The value of this name. */
    String get(String name) {
        return values.get(name);
    }

    /** The lines of the value of this name. */
    List<String> lines(String name) {
        List<String> lines = new ArrayList<>();
        for (String line : get(name).split("\n")) {
            if (!line.isEmpty()) {
                lines.add(line);
            }
        }
        return lines;
    }
}
