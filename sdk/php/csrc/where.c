/* "Where are you?": the server asks with SIGURG when a request's time is up, and for the slow log (convention: crates/worker). The answer goes
 * to standard error: script and line, and who called.
 *
 * A script in its own code answers at its next jump or call (zend's interrupt), where the line is exact. One that waits inside C (sleep, a
 * database) never gets there: then the thread that heard the question answers (tutti_question.h). Either way nothing is allocated, and every
 * pointer is read with care.
 */
#define _GNU_SOURCE
#include "internal.h"
#include "tutti_question.h"

/* More callers than this say no more. */
#define CALLERS 10

/* Longest name that is shown. */
#define NAME_BYTES 512
/* More frames than this, of C functions too, are not looked at. */
#define FRAMES 200

static atomic_bool asked;
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

static void add_string(answer *to, const zend_string *string)
{
	char text[NAME_BYTES];
	size_t len;
	if (!string || !tutti_peek(&len, &ZSTR_LEN(string), sizeof(len))) {
		return;
	}
	len = len < sizeof(text) ? len : sizeof(text);
	if (len > 0 && tutti_peek(text, ZSTR_VAL(string), len)) {
		add(to, text, len);
	}
}

static void add_name(answer *to, const zend_function *function)
{
	const zend_string *scope;
	if (!function->common.function_name) {
		add_text(to, "the script");
		return;
	}
	if (function->common.scope && tutti_peek(&scope, &function->common.scope->name, sizeof(scope))) {
		add_string(to, scope);
		add_text(to, "::");
	}
	add_string(to, function->common.function_name);
	add_text(to, "()");
}

static void add_place(answer *to, const zend_execute_data *frame, const zend_function *function)
{
	const zend_op_array *code = &function->op_array;
	const zend_op *at = frame->opline;
	uint32_t line = code->line_start;
	add_string(to, code->filename);
	add_text(to, ":");
	/* While an exception is handled it points elsewhere. */
	if (at >= code->opcodes && at < code->opcodes + code->last) {
		tutti_peek(&line, &at->lineno, sizeof(line));
	}
	add_number(to, line);
	add_text(to, " in ");
	add_name(to, function);
}

/* Reads a frame and its function; false where there is none. */
static bool read_frame(const zend_execute_data *at, zend_execute_data *frame, zend_function *function)
{
	uint8_t type;
	if (!at || !tutti_peek(frame, at, sizeof(*frame))) {
		return false;
	}
	function->type = 0;
	if (!frame->func) {
		return true;
	}
	return tutti_peek(&type, &frame->func->type, sizeof(type))
		&& tutti_peek(function, frame->func, ZEND_USER_CODE(type) ? sizeof(zend_op_array) : sizeof(zend_internal_function));
}

static void tell(const zend_execute_data *at)
{
	answer to = {.len = 0};
	zend_execute_data frame;
	zend_function function, inside;
	bool is_inside = false;
	int count = 0;

	pthread_mutex_lock(&tutti_answering);
	add_text(&to, "process ");
	add_number(&to, (unsigned long) getpid());
	for (int seen = 0; seen < FRAMES && count <= CALLERS && read_frame(at, &frame, &function); seen++, at = frame.prev_execute_data) {
		if (!function.type) {
			continue;
		}
		if (!ZEND_USER_CODE(function.type)) {
			if (!count && !is_inside) {
				inside = function;
				is_inside = true;
			}
			continue;
		}
		add_text(&to, count ? "\n  called at " : " is at ");
		add_place(&to, &frame, &function);
		if (!count && is_inside) {
			add_text(&to, ", waiting for ");
			add_name(&to, &inside);
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
	pthread_mutex_unlock(&tutti_answering);
}

static void on_interrupt(zend_execute_data *frame)
{
	if (atomic_exchange(&asked, false)) {
		tell(frame);
	}
	if (next_interrupt) {
		next_interrupt(frame);
	}
}

/* In the thread that hears questions. */
static void answer_question(void)
{
	atomic_store(&asked, true);
	zend_atomic_bool_store(&EG(vm_interrupt), true);
	if (tutti_is_unanswered(&asked)) {
		tell(EG(current_execute_data));
	}
}

void tutti_where_startup(void)
{
	next_interrupt = zend_interrupt_function;
	zend_interrupt_function = on_interrupt;
}

void tutti_where_worker(void)
{
	tutti_question_start(SIGURG, answer_question);
}
