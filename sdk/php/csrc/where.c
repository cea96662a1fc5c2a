/* "Where are you?": the server asks with SIGURG when a request's time is up (convention: crates/worker). The answer goes to standard
 * error: script and line, and who called.
 *
 * A script in its own code is asked to stop at its next jump or call (zend's interrupt), where the line is exact. One that waits inside
 * C (sleep, a database) never gets there: then the signal handler answers itself. Frames, functions and names are not touched while an
 * internal function runs, so reading them is safe; nothing is allocated.
 */
#define _GNU_SOURCE
#include "internal.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* More callers than this say no more. */
#define CALLERS 10

static volatile sig_atomic_t asked;
static void (*next_interrupt)(zend_execute_data *frame);

typedef struct {
	char text[4096]; /* PIPE_BUF: written whole */
	size_t len;
} answer;

static void add(answer *to, const char *text, size_t len)
{
	size_t room = sizeof(to->text) - to->len;
	size_t fits = len < room ? len : room;
	memcpy(to->text + to->len, text, fits);
	to->len += fits;
}

static void add_text(answer *to, const char *text)
{
	add(to, text, strlen(text));
}

static void add_number(answer *to, unsigned long number)
{
	char digits[24];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char) ('0' + number % 10);
		number /= 10;
	} while (number);
	add(to, digits + at, sizeof(digits) - at);
}

static void add_name(answer *to, const zend_function *function)
{
	if (!function->common.function_name) {
		add_text(to, "the script");
		return;
	}
	if (function->common.scope) {
		add(to, ZSTR_VAL(function->common.scope->name), ZSTR_LEN(function->common.scope->name));
		add_text(to, "::");
	}
	add(to, ZSTR_VAL(function->common.function_name), ZSTR_LEN(function->common.function_name));
	add_text(to, "()");
}

static void add_place(answer *to, const zend_execute_data *frame)
{
	const zend_op_array *code = &frame->func->op_array;
	const zend_op *at = frame->opline;
	if (code->filename) {
		add(to, ZSTR_VAL(code->filename), ZSTR_LEN(code->filename));
	}
	add_text(to, ":");
	/* While an exception is handled it points elsewhere. */
	int is_within = at >= code->opcodes && at < code->opcodes + code->last;
	add_number(to, is_within ? at->lineno : code->line_start);
	add_text(to, " in ");
	add_name(to, frame->func);
}

static void tell(const zend_execute_data *frame)
{
	answer to = {.len = 0};
	const zend_function *inside = NULL;
	int count = 0;

	add_text(&to, "process ");
	add_number(&to, (unsigned long) getpid());
	for (; frame && count <= CALLERS; frame = frame->prev_execute_data) {
		if (!frame->func) {
			continue;
		}
		if (!ZEND_USER_CODE(frame->func->type)) {
			if (!count && !inside) {
				inside = frame->func;
			}
			continue;
		}
		add_text(&to, count ? "\n  called at " : " is at ");
		add_place(&to, frame);
		if (!count && inside) {
			add_text(&to, ", waiting for ");
			add_name(&to, inside);
		}
		count++;
	}
	if (!count) {
		add_text(&to, " runs no script");
	}
	if (to.len == sizeof(to.text)) {
		to.len--;
	}
	to.text[to.len++] = '\n';
	/* Where standard error does not take it nothing can be said. */
	ssize_t written = write(STDERR_FILENO, to.text, to.len);
	(void) written;
}

static void on_interrupt(zend_execute_data *frame)
{
	if (asked) {
		asked = 0;
		tell(frame);
	}
	if (next_interrupt) {
		next_interrupt(frame);
	}
}

static void on_asked(int signal)
{
	int saved = errno;
	const zend_execute_data *frame = EG(current_execute_data);

	(void) signal;
	if (frame && frame->func && ZEND_USER_CODE(frame->func->type)) {
		asked = 1;
		zend_atomic_bool_store(&EG(vm_interrupt), true);
	} else {
		tell(frame);
	}
	errno = saved;
}

void tutti_where_startup(void)
{
	next_interrupt = zend_interrupt_function;
	zend_interrupt_function = on_interrupt;
}

void tutti_where_worker(void)
{
	struct sigaction action = {.sa_handler = on_asked, .sa_flags = SA_RESTART};
	sigemptyset(&action.sa_mask);
	sigaction(SIGURG, &action, NULL);
}
