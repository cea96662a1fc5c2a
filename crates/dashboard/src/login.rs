//! The form for the token.

use maud::{DOCTYPE, Markup, html};

use crate::page::head;

/// Returns the page; `to` is the requested page, `is_wrong` is set after a wrong token.
pub(crate) fn page(to: &str, is_wrong: bool) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head("Log in"))
            body.login {
                main id="content" {
                    h1 { "Tutti" }
                    form method="post" action="/login" {
                        @if is_wrong {
                            p.alert id="wrong" role="alert" { "The token is wrong." }
                        }
                        // Password managers expect a user name next to it.
                        input type="text" name="username" value="tutti" autocomplete="username" hidden;
                        label for="token" { "Token" }
                        input type="password" id="token" name="token" required autofocus autocomplete="current-password"
                            aria-describedby=(if is_wrong { "wrong help" } else { "help" }) aria-invalid=[is_wrong.then_some("true")];
                        p.help id="help" { "It is in the file that " code { "token_file" } " of " code { "settings.dashboard" } " names." }
                        input type="hidden" name="to" value=(to);
                        button type="submit" { "Log in" }
                    }
                }
            }
        }
    }
}
