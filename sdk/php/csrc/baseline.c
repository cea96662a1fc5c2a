/* The state of a resident script when it had booted, and the way back to it after each request.
 *
 * Called by resident.c: tutti_baseline_take() once, before the first request; tutti_baseline_restore() after each; tutti_baseline_leave() before
 * PHP ends the script as a whole, which must find its own state again. Everything here is what PHP itself undoes at the end of a request, done
 * piece by piece: php.ini directives, error and exception handlers, working folder, locale, environment, umask, session. What only the
 * application knows (its objects, static and global variables) stays.
 */

#include <php.h>
#include <php_ini.h>
#include <ext/standard/basic_functions.h>
#include <ext/standard/php_filestat.h>
#include <ext/session/php_session.h>
#include <ext/random/php_random.h>
#include <SAPI.h>
#include <dlfcn.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>
#include "internal.h"

/* A directive that the boot has changed. */
typedef struct {
	zend_ini_entry *entry;
	zend_string *value;
} directive;

/* Handlers of errors, or of exceptions: the one in use and those below it. */
typedef struct {
	zval current;
	zval *below;
	int *levels_below; /* null for exceptions */
	int level;
	int count;
} handlers;

/* Settings that are no directives, read and written by functions of their own. */
typedef struct {
	const char *getter, *setter;
	zif_handler original;
	bool touched;
	zval value;
} setting;

enum { TIMEZONE, SEED };
static setting settings[] = {
	[TIMEZONE] = {.getter = "date_default_timezone_get", .setter = "date_default_timezone_set"},
	[SEED] = {.setter = "mt_srand"},
	{.setter = "srand"},
	{.getter = "mb_internal_encoding", .setter = "mb_internal_encoding"},
	{.getter = "mb_http_output", .setter = "mb_http_output"},
	{.getter = "mb_substitute_character", .setter = "mb_substitute_character"},
	{.getter = "mb_detect_order", .setter = "mb_detect_order"},
	{.getter = "mb_regex_encoding", .setter = "mb_regex_encoding"},
	{.getter = "mb_regex_set_options", .setter = "mb_regex_set_options"},
	{.getter = "libxml_use_internal_errors", .setter = "libxml_use_internal_errors"},
};
#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

/* The number of functions of the user's session handlers. */
#define SESSION_HANDLERS ((int) (sizeof(((php_ps_globals *) NULL)->mod_user_names) / sizeof(zval)))

static struct {
	bool taken;
	directive *directives;
	size_t directive_count;
	handlers errors, exceptions;
	char *directory;
	char *locale;
	zend_string *ctype;
	bool locale_changed;
	HashTable environment;
	int umask;
	HashTable *shutdown_functions;
	zval session_handlers[SESSION_HANDLERS];
	zend_string *session_class;
	bool session_user;
} base;

/* A function of the table was called since `touched` was last cleared. */
static bool any_touched;

/* ext/session, when it is there: PHP may be built without. */
static php_ps_globals *session;
static zend_module_entry *session_module, *filter_module, *zlib_module;

static PHP_FUNCTION(noting_setting)
{
	zif_handler original = NULL;
	for (size_t i = 0; i < SETTINGS; i++) {
		if (zend_string_equals_cstr(execute_data->func->common.function_name, settings[i].setter, strlen(settings[i].setter))) {
			/* Reading is not setting: most of these functions do both. */
			settings[i].touched |= ZEND_NUM_ARGS() > 0 || !settings[i].getter;
			any_touched |= settings[i].touched;
			original = settings[i].original;
		}
	}
	if (original) {
		original(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	}
}

static zend_module_entry *module(const char *name, size_t len)
{
	return zend_hash_str_find_ptr(&module_registry, name, len);
}

/* Once in a process, after PHP has started. */
void tutti_baseline_startup(void)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		zend_function *function = zend_hash_str_find_ptr(CG(function_table), settings[i].setter, strlen(settings[i].setter));
		if (function && function->type == ZEND_INTERNAL_FUNCTION) {
			settings[i].original = function->internal_function.handler;
			function->internal_function.handler = ZEND_FN(noting_setting);
		}
	}
	session_module = module(ZEND_STRL("session"));
	session = session_module ? dlsym(RTLD_DEFAULT, "ps_globals") : NULL;
	filter_module = module(ZEND_STRL("filter"));
	zlib_module = module(ZEND_STRL("zlib"));
}

static void call(const char *name, zval *argument, zval *result)
{
	zval function;
	ZVAL_UNDEF(result);
	ZVAL_STRING(&function, name);
	call_user_function(NULL, NULL, &function, result, argument ? 1 : 0, argument);
	zval_ptr_dtor(&function);
}

static void take_settings(void)
{
	for (size_t i = 0; i < SETTINGS; i++) {
		settings[i].touched = false;
		ZVAL_UNDEF(&settings[i].value);
		if (settings[i].original && settings[i].getter) {
			call(settings[i].getter, NULL, &settings[i].value);
		}
	}
	any_touched = false;
}

static void restore_settings(void)
{
	if (!any_touched) {
		return;
	}
	for (size_t i = 0; i < SETTINGS; i++) {
		zval result;
		if (!settings[i].touched) {
			continue;
		}
		if (!settings[i].getter) {
			/* Numbers that a request has made predictable are not for the next. */
			RANDOM_G(mt19937_seeded) = false;
		} else {
			call(settings[i].setter, &settings[i].value, &result);
			zval_ptr_dtor(&result);
			if (strncmp(settings[i].setter, "libxml", 6) == 0) {
				call("libxml_clear_errors", NULL, &result);
				zval_ptr_dtor(&result);
			}
		}
		settings[i].touched = false;
	}
	any_touched = false;
}

static void take_directives(void)
{
	zend_ini_entry *entry;
	if (!EG(modified_ini_directives)) {
		return;
	}
	base.directives = safe_emalloc(zend_hash_num_elements(EG(modified_ini_directives)), sizeof(directive), 0);
	ZEND_HASH_FOREACH_PTR(EG(modified_ini_directives), entry) {
		base.directives[base.directive_count++] = (directive){entry, entry->value ? zend_string_copy(entry->value) : NULL};
	} ZEND_HASH_FOREACH_END();
}

static directive *in_baseline(const zend_ini_entry *entry)
{
	for (size_t i = 0; i < base.directive_count; i++) {
		if (base.directives[i].entry == entry) {
			return &base.directives[i];
		}
	}
	return NULL;
}

static void restore_directives(void)
{
	HashTable *modified = EG(modified_ini_directives);
	if (!modified) {
		return;
	}
	if (zend_hash_num_elements(modified) > base.directive_count) {
		uint32_t count = 0;
		zend_ini_entry *entry, **others = safe_emalloc(zend_hash_num_elements(modified), sizeof(*others), 0);
		ZEND_HASH_FOREACH_PTR(modified, entry) {
			if (!in_baseline(entry)) {
				others[count++] = entry;
			}
		} ZEND_HASH_FOREACH_END();
		for (uint32_t i = 0; i < count; i++) {
			/* The stage of the end of a request: the session's refuse any other once headers are sent. */
			zend_restore_ini_entry(others[i]->name, ZEND_INI_STAGE_DEACTIVATE);
		}
		efree(others);
	}
	for (size_t i = 0; i < base.directive_count; i++) {
		directive *was = &base.directives[i];
		zend_string *value = was->entry->value;
		if (value != was->value && was->value && !(value && zend_string_equals(value, was->value))) {
			zend_alter_ini_entry_ex(was->entry->name, was->value, ZEND_INI_SYSTEM, ZEND_INI_STAGE_DEACTIVATE, true);
		} else if (!was->entry->modified && was->value) {
			/* ini_restore() */
			zend_alter_ini_entry_ex(was->entry->name, was->value, ZEND_INI_SYSTEM, ZEND_INI_STAGE_DEACTIVATE, true);
		}
	}
}

static void take_handlers(handlers *to, zval *current, int level, zend_stack *below, zend_stack *levels)
{
	ZVAL_COPY(&to->current, current);
	to->level = level;
	to->count = zend_stack_count(below);
	if (to->count == 0) {
		return;
	}
	to->below = safe_emalloc((size_t) to->count, sizeof(zval), 0);
	zval *elements = zend_stack_base(below);
	for (int i = 0; i < to->count; i++) {
		ZVAL_COPY(&to->below[i], &elements[i]);
	}
	if (levels) {
		to->levels_below = safe_emalloc((size_t) to->count, sizeof(int), 0);
		memcpy(to->levels_below, zend_stack_base(levels), (size_t) to->count * sizeof(int));
	}
}

/* Names and arrays in the code of a script are not counted, and yet are values of their own. */
static bool same(const zval *a, const zval *b)
{
	return Z_TYPE_P(a) == Z_TYPE_P(b) && (Z_TYPE_P(a) < IS_STRING || Z_COUNTED_P(a) == Z_COUNTED_P(b));
}

static bool same_handlers(const handlers *from, const zval *current, const int *level, const zend_stack *below, const zend_stack *levels)
{
	if (!same(&from->current, current) || zend_stack_count(below) != from->count || (level && *level != from->level)) {
		return false;
	}
	const zval *elements = zend_stack_base(below);
	const int *levels_below = levels ? zend_stack_base(levels) : NULL;
	for (int i = 0; i < from->count; i++) {
		if (!same(&from->below[i], &elements[i]) || (levels_below && levels_below[i] != from->levels_below[i])) {
			return false;
		}
	}
	return true;
}

static void restore_handlers(handlers *from, zval *current, int *level, zend_stack *below, zend_stack *levels)
{
	if (same_handlers(from, current, level, below, levels)) {
		return;
	}
	zval old;
	ZVAL_COPY_VALUE(&old, current);
	ZVAL_UNDEF(current);
	zval_ptr_dtor(&old);
	while (!zend_stack_is_empty(below)) {
		ZVAL_COPY_VALUE(&old, (zval *) zend_stack_top(below));
		zend_stack_del_top(below);
		if (levels) {
			zend_stack_del_top(levels);
		}
		zval_ptr_dtor(&old);
	}
	for (int i = 0; i < from->count; i++) {
		zval copy;
		ZVAL_COPY(&copy, &from->below[i]);
		if (levels) {
			zend_stack_push(levels, &from->levels_below[i]);
		}
		zend_stack_push(below, &copy);
	}
	ZVAL_COPY(current, &from->current);
	if (level) {
		*level = from->level;
	}
}

/* They are an array in PHP 8.2 and members of a struct since 8.4, one behind the other in both. */
static zval *session_handlers(void)
{
	return (zval *) &session->mod_user_names;
}

static void take_session(void)
{
	if (!session) {
		return;
	}
	for (int i = 0; i < SESSION_HANDLERS; i++) {
		ZVAL_COPY(&base.session_handlers[i], &session_handlers()[i]);
	}
	base.session_class = session->mod_user_class_name ? zend_string_copy(session->mod_user_class_name) : NULL;
	base.session_user = session->mod_user_implemented;
}

static bool same_session_handlers(void)
{
	for (int i = 0; i < SESSION_HANDLERS; i++) {
		if (!same(&session_handlers()[i], &base.session_handlers[i])) {
			return false;
		}
	}
	return true;
}

/* True if the request has come near its session. */
static bool session_touched(void)
{
	return session->auto_start || session->session_status != php_session_none || session->id || session->mod_data
		|| !Z_ISUNDEF(session->http_session_vars) || session->mod_user_implemented != base.session_user
		|| !same_session_handlers();
}

bool tutti_baseline_in_session(void)
{
	return session && session->session_status == php_session_active;
}

/* Writes the session and forgets it: before the answer ends, because it may still set fields. */
bool tutti_baseline_end_modules(void)
{
	bool is_touched = session && session_touched();
	if (is_touched) {
		session_module->request_shutdown_func(session_module->type, session_module->module_number);
		zend_hash_str_del(&EG(symbol_table), ZEND_STRL("_SESSION"));
	}
	if (filter_module && filter_module->request_shutdown_func) {
		filter_module->request_shutdown_func(filter_module->type, filter_module->module_number);
	}
	if (zlib_module && zlib_module->request_shutdown_func) {
		zlib_module->request_shutdown_func(zlib_module->type, zlib_module->module_number);
	}
	return is_touched;
}

/* For the next request, which is known already: session.auto_start reads its cookie. */
void tutti_baseline_begin_modules(bool restart_session)
{
	if (zlib_module && zlib_module->request_startup_func) {
		zlib_module->request_startup_func(zlib_module->type, zlib_module->module_number);
	}
	if (!session || !restart_session) {
		return;
	}
	for (int i = 0; i < SESSION_HANDLERS; i++) {
		ZVAL_COPY(&session_handlers()[i], &base.session_handlers[i]);
	}
	session->mod_user_class_name = base.session_class ? zend_string_copy(base.session_class) : NULL;
	session->mod_user_implemented = base.session_user;
	session_module->request_startup_func(session_module->type, session_module->module_number);
}

/* session.auto_start is for requests: not for the boot. Gives the former value. */
bool tutti_baseline_auto_start(bool value)
{
	bool before = session && session->auto_start;
	if (session) {
		session->auto_start = value;
	}
	return before;
}

void tutti_baseline_take(void)
{
	memset(&base, 0, sizeof(base));
	take_settings();
	take_directives();
	take_handlers(&base.errors, &EG(user_error_handler), EG(user_error_handler_error_reporting), &EG(user_error_handlers),
		&EG(user_error_handlers_error_reporting));
	take_handlers(&base.exceptions, &EG(user_exception_handler), 0, &EG(user_exception_handlers), NULL);
	take_session();
	base.directory = getcwd(NULL, 0);
	tutti_standing(true);
	base.locale = strdup(setlocale(LC_ALL, NULL));
	base.ctype = BG(ctype_string) ? zend_string_copy(BG(ctype_string)) : NULL;
	base.locale_changed = BG(locale_changed);
	BG(locale_changed) = 0;
	base.umask = BG(umask);
	BG(umask) = -1;
	base.environment = BG(putenv_ht);
	zend_hash_init(&BG(putenv_ht), 1, NULL, base.environment.pDestructor, 0);
	base.shutdown_functions = BG(user_shutdown_function_names);
	BG(user_shutdown_function_names) = NULL;
	base.taken = true;
}

static void restore_locale(void)
{
	if (!BG(locale_changed)) {
		return;
	}
	setlocale(LC_ALL, base.locale);
	zend_update_current_locale();
	if (BG(ctype_string)) {
		zend_string_release_ex(BG(ctype_string), 0);
	}
	BG(ctype_string) = base.ctype ? zend_string_copy(base.ctype) : NULL;
	BG(locale_changed) = 0;
}

static void forget_last_error(void)
{
	PG(last_error_type) = 0;
	PG(last_error_lineno) = 0;
	if (PG(last_error_message)) {
		zend_string_release(PG(last_error_message));
		PG(last_error_message) = NULL;
	}
	if (PG(last_error_file)) {
		zend_string_release(PG(last_error_file));
		PG(last_error_file) = NULL;
	}
}

void tutti_baseline_restore(void)
{
	restore_directives();
	restore_handlers(&base.errors, &EG(user_error_handler), &EG(user_error_handler_error_reporting), &EG(user_error_handlers),
		&EG(user_error_handlers_error_reporting));
	restore_handlers(&base.exceptions, &EG(user_exception_handler), NULL, &EG(user_exception_handlers), NULL);
	restore_settings();
	restore_locale();
	if (!tutti_standing(false) && base.directory && chdir(base.directory) == 0) {
		tutti_standing(true);
	}
	if (BG(umask) != -1) {
		umask((mode_t) BG(umask));
		BG(umask) = -1;
	}
	if (zend_hash_num_elements(&BG(putenv_ht)) > 0) {
		zend_hash_clean(&BG(putenv_ht));
	}
	if (BG(strtok_string)) {
		zend_string_release(BG(strtok_string));
		BG(strtok_string) = NULL;
	}
	if (BG(user_tick_functions)) {
		zend_llist_destroy(BG(user_tick_functions));
	}
	if (BG(CurrentStatFile) || BG(CurrentLStatFile)) {
		php_clear_stat_cache(0, NULL, 0);
	}
	forget_last_error();
	PG(in_error_log) = 0;
	EG(exit_status) = 0;
	zend_memory_reset_peak_usage();
}

/* The script's own shutdown functions come first, as they were registered first. */
static void join_shutdown_functions(void)
{
	HashTable *own = base.shutdown_functions, *later = BG(user_shutdown_function_names);
	zval *entry;
	if (!own) {
		return;
	}
	if (later) {
		ZEND_HASH_FOREACH_VAL(later, entry) {
			zend_hash_next_index_insert(own, entry);
		} ZEND_HASH_FOREACH_END();
		/* The entries have moved. */
		later->pDestructor = NULL;
		zend_hash_destroy(later);
		FREE_HASHTABLE(later);
	}
	BG(user_shutdown_function_names) = own;
}

static void drop_handlers(handlers *from)
{
	zval_ptr_dtor(&from->current);
	for (int i = 0; i < from->count; i++) {
		zval_ptr_dtor(&from->below[i]);
	}
}

/* PHP is about to end the script. After a bailout its counts may be wrong: then nothing is given back, the memory goes as a whole. */
void tutti_baseline_leave(bool is_clean)
{
	if (!base.taken) {
		return;
	}
	join_shutdown_functions();
	zend_hash_destroy(&BG(putenv_ht));
	BG(putenv_ht) = base.environment;
	if (BG(umask) != -1) {
		umask((mode_t) BG(umask));
	}
	BG(umask) = base.umask;
	BG(locale_changed) |= base.locale_changed;
	if (is_clean) {
		for (size_t i = 0; i < base.directive_count; i++) {
			if (base.directives[i].value) {
				zend_string_release(base.directives[i].value);
			}
		}
		drop_handlers(&base.errors);
		drop_handlers(&base.exceptions);
		for (int i = 0; session && i < SESSION_HANDLERS; i++) {
			zval_ptr_dtor(&base.session_handlers[i]);
		}
		if (base.session_class) {
			zend_string_release(base.session_class);
		}
		if (base.ctype) {
			zend_string_release(base.ctype);
		}
		for (size_t i = 0; i < SETTINGS; i++) {
			zval_ptr_dtor(&settings[i].value);
		}
	}
	for (size_t i = 0; i < SETTINGS; i++) {
		ZVAL_UNDEF(&settings[i].value);
	}
	free(base.directory);
	free(base.locale);
	memset(&base, 0, sizeof(base));
}
