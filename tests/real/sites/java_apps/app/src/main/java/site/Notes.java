package site;

import java.io.IOException;
import java.security.Principal;
import java.util.concurrent.Callable;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.http.ResponseEntity;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Controller;
import org.springframework.ui.Model;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.ResponseBody;
import org.springframework.web.multipart.MultipartFile;
import org.springframework.web.server.ResponseStatusException;

/** The pages. */
@Controller
public class Notes {
    private final JdbcTemplate database;

    Notes(JdbcTemplate database) {
        this.database = database;
    }

    @GetMapping("/")
    String index(Model model, Principal person) {
        model.addAttribute("person", person == null ? null : person.getName());
        model.addAttribute("notes", database.queryForList("SELECT id, text, picture IS NOT NULL AS pictured FROM note ORDER BY id"));
        return "index";
    }

    @GetMapping("/new")
    String form() {
        return "form";
    }

    @PostMapping("/new")
    String add(@RequestParam String text, @RequestParam MultipartFile picture, Model model) throws IOException {
        if (text.isBlank()) {
            model.addAttribute("fault", "A note has a text.");
            return "form";
        }
        database.update("INSERT INTO note (text, picture) VALUES (?, ?)", text, picture.isEmpty() ? null : picture.getBytes());
        return "redirect:/";
    }

    @GetMapping("/picture/{id}")
    ResponseEntity<byte[]> picture(@PathVariable int id) {
        byte[] bytes = database.queryForList("SELECT picture FROM note WHERE id = ?", byte[].class, id).stream()
                .findFirst()
                .orElseThrow(() -> new ResponseStatusException(HttpStatus.NOT_FOUND));
        return ResponseEntity.ok().contentType(MediaType.IMAGE_PNG).body(bytes);
    }

    /** Answered by another thread. */
    @GetMapping("/slow")
    @ResponseBody
    Callable<String> slow() {
        return () -> "answered by another thread";
    }
}
