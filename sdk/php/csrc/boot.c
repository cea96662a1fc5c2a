/* The boot of a resident script: says what it does in vain, since there is no request, and why it came to an end.
 *
 * Called by resident.c. What only a request can do is no error: a script may do it for other servers. But no reader would look for it here.
 */

#include <php.h>
#include <php_output.h>
#include <SAPI.h>
#include <syslog.h>
#include <zend_execute.h>
#include <zend_vm_opcodes.h>
#include "internal.h"

/* Says of the boot that it has done what only a request can do; `what` was in vain. */
void tutti_boot_tell(const char *what, const char *cure)
{
	char text[1024];
	const char *script = SG(request_info).path_translated ? SG(request_info).path_translated : "?";
	int len = snprintf(text, sizeof(text), "`%s` %s while it booted (hint: %s in each request)", script, what, cure);
	host_log(text, MIN((size_t) len, sizeof(text) - 1), LOG_WARNING);
}

/* Fields, but the one that PHP sets itself. */
static void tell_of_fields(void)
{
	static const char own[] = "X-Powered-By:";
	char what[512] = "has set fields of an answer that there is not (`";
	size_t begin = strlen(what), len = begin;
	zend_llist_position position;

	for (sapi_header_struct *h = zend_llist_get_first_ex(&SG(sapi_headers).headers, &position); h;
	     h = zend_llist_get_next_ex(&SG(sapi_headers).headers, &position)) {
		size_t name = strcspn(h->header, ":");
		if (strncasecmp(h->header, own, sizeof(own) - 1) == 0 || name > h->header_len || len + name + sizeof("`, ``)") > sizeof(what)) {
			continue;
		}
		len += (size_t) snprintf(what + len, sizeof(what) - len, "%s%.*s", len > begin ? "`, `" : "", (int) name, h->header);
	}
	if (len > begin) {
		snprintf(what + len, sizeof(what) - len, "`)");
		tutti_boot_tell(what, "set them");
	}
}

/* Called before what was written goes to the log, and the fields nowhere. */
void tutti_boot_tell_of_output(void)
{
	int own = PG(output_buffering) || (PG(output_handler) && PG(output_handler)[0]);
	tell_of_fields();
	if (php_output_get_level() > own) {
		tutti_boot_tell("has begun a buffer of output, which is closed,", "begin it");
	}
}

/* The place of the `exit` that has ended the boot. */
static char exit_place[1024];

static void note_exit(void)
{
	if (tutti_booting) {
		snprintf(exit_place, sizeof(exit_place), "%s:%u", zend_get_executed_filename(), zend_get_executed_lineno());
	}
}

#if PHP_VERSION_ID < 80400
static int leave(zend_execute_data *execute_data)
{
	note_exit();
	return ZEND_USER_OPCODE_DISPATCH;
}

void tutti_boot_handle_opcodes(void)
{
	zend_set_user_opcode_handler(ZEND_EXIT, leave);
}

void tutti_boot_startup(void)
{
}
#else
static zif_handler php_exit;

static PHP_FUNCTION(resident_exit)
{
	note_exit();
	php_exit(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

void tutti_boot_handle_opcodes(void)
{
}

void tutti_boot_startup(void)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("exit"));
	if (function && function->type == ZEND_INTERNAL_FUNCTION) {
		php_exit = function->internal_function.handler;
		function->internal_function.handler = ZEND_FN(resident_exit);
	}
}
#endif

void tutti_boot_begin(void)
{
	exit_place[0] = 0;
}

/* The reason why a boot failed. */
void tutti_boot_tell_end(void)
{
	char text[2048];
	bool is_fatal = PG(last_error_message) && (PG(last_error_type) & (E_ERROR | E_PARSE | E_CORE_ERROR | E_COMPILE_ERROR | E_USER_ERROR | E_RECOVERABLE_ERROR));
	if (is_fatal) {
		snprintf(text, sizeof(text), "%s in %s:%d", ZSTR_VAL(PG(last_error_message)), PG(last_error_file) ? ZSTR_VAL(PG(last_error_file)) : "?",
			PG(last_error_lineno));
		host_boot_failed(text, strlen(text));
	} else if (exit_place[0]) {
		snprintf(text, sizeof(text), "`exit` in %s, before it called `tutti_handle_request()`", exit_place);
		host_boot_failed(text, strlen(text));
	} else {
		host_boot_failed("", 0);
	}
}
