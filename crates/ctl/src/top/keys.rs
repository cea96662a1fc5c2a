//! The meaning of a key.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::order::Order;
use super::view::{Mode, State};

/// An action outside the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyAction {
    Nothing,
    End,
    Order(Order),
}

/// Handles a key in the current mode of the screen.
pub(super) fn pressed(state: &mut State, key: KeyEvent) -> KeyAction {
    let is_interrupt = key.modifiers.contains(KeyModifiers::CONTROL)
        && matches!(key.code, KeyCode::Char('c' | 'd'));
    if is_interrupt {
        return KeyAction::End;
    }
    match std::mem::take(&mut state.mode) {
        Mode::Normal => normal(state, key.code),
        Mode::Filter => {
            match key.code {
                KeyCode::Enter => return KeyAction::Nothing,
                KeyCode::Esc => {
                    state.filter.clear();
                    return KeyAction::Nothing;
                }
                KeyCode::Backspace => drop(state.filter.pop()),
                KeyCode::Char(character) => state.filter.push(character),
                _ => {}
            }
            state.mode = Mode::Filter;
            KeyAction::Nothing
        }
        Mode::Confirm(order) => match key.code {
            KeyCode::Char('y') => KeyAction::Order(order),
            _ => {
                state.say("nothing was done".to_owned());
                KeyAction::Nothing
            }
        },
        // Any key closes the help.
        Mode::Help => KeyAction::Nothing,
    }
}

fn normal(state: &mut State, key: KeyCode) -> KeyAction {
    match key {
        KeyCode::Char('q') | KeyCode::Esc => return KeyAction::End,
        KeyCode::Char('?' | 'h') => state.mode = Mode::Help,
        KeyCode::Char('/') => state.mode = Mode::Filter,
        KeyCode::Char('s') => state.sort_by_next(),
        KeyCode::Char('p' | ' ') => state.is_paused = !state.is_paused,
        KeyCode::Enter => state.shows_details = !state.shows_details,
        KeyCode::Up | KeyCode::Char('k') => state.choose(-1),
        KeyCode::Down | KeyCode::Char('j') => state.choose(1),
        KeyCode::Char('r') => {
            if let Some(name) = state.chosen() {
                state.mode = Mode::Confirm(Order::Restart(name));
            }
        }
        _ => {}
    }
    KeyAction::Nothing
}

#[cfg(test)]
mod tests {
    use super::super::samples::tests::two;
    use super::*;

    fn state() -> State {
        let (before, now) = two();
        let mut state = State::new(before, None, false);
        state.add(now);
        state
    }

    fn press(state: &mut State, keys: &str) -> Vec<KeyAction> {
        let mut all = Vec::new();
        for character in keys.chars() {
            let code = match character {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '\x08' => KeyCode::Backspace,
                'v' => KeyCode::Down,
                '^' => KeyCode::Up,
                other => KeyCode::Char(other),
            };
            all.push(pressed(state, KeyEvent::from(code)));
        }
        all
    }

    #[test]
    fn a_restart_is_confirmed_and_is_of_the_chosen_one() {
        let mut state = state();
        assert_eq!(state.chosen().as_deref(), Some("blog"));
        let done = press(&mut state, "vr");
        assert_eq!(done, [KeyAction::Nothing, KeyAction::Nothing]);
        assert_eq!(
            press(&mut state, "y"),
            [KeyAction::Order(Order::Restart("shop".to_owned()))]
        );
        // Any other key means no.
        assert_eq!(
            press(&mut state, "rn"),
            [KeyAction::Nothing, KeyAction::Nothing]
        );
        assert_eq!(press(&mut state, "r\x1b")[1], KeyAction::Nothing);
    }

    #[test]
    fn a_filter_takes_letters_that_are_keys_otherwise() {
        let mut state = state();
        let wanted = press(&mut state, "/shoq\x08p\n");
        assert!(wanted.iter().all(|wanted| *wanted == KeyAction::Nothing));
        assert_eq!(state.chosen().as_deref(), Some("shop"));
        press(&mut state, "/\x1b");
        assert!(state.filter.is_empty());
        press(&mut state, "/nothing\n");
        assert_eq!(state.chosen(), None);
        assert_eq!(press(&mut state, "r")[0], KeyAction::Nothing);
        assert!(matches!(state.mode, Mode::Normal));
        assert_eq!(
            press(&mut state, "?q"),
            [KeyAction::Nothing, KeyAction::Nothing]
        );
        assert_eq!(press(&mut state, "q"), [KeyAction::End]);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(pressed(&mut state, interrupt), KeyAction::End);
    }
}
