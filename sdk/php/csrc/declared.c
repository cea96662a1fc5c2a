/* Knows what a resident script's process has declared already: classes, interfaces, traits, enums and functions.
 *
 * A front controller runs once for each request, in a process that keeps all declarations. A `require` of a file that declares a class would
 * end its second request with "Cannot declare class". So: what an earlier request has declared, at that very place of that very file, is not
 * declared again, and the rest of the file runs. Two mechanisms do it:
 *  - PHP declares most things while it compiles. The code of a file that does is kept as first compiled; later requests run that code.
 *  - The rest is declared by opcodes (conditional declarations, classes whose parent was not known yet). Their handlers look first.
 * All else fails as PHP says: another file that declares the name, and one request that declares it twice.
 *
 * Called by resident.c, which says when a life and its requests begin and end. Must never happen: code of a file that has changed runs as if
 * it had not. Such files are looked at before each request, and the script boots anew before a request would meet one.
 */

#include <php.h>
#include <zend_execute.h>
#include <zend_vm_opcodes.h>
#include <SAPI.h>
#include <sys/stat.h>
#include <syslog.h>
#include "internal.h"

/* A file that was included; `declares` is false for most, which are compiled as ever. */
typedef struct included {
	struct included *next; /* of those that several requests include */
	zend_string *path;
	zend_op_array code; /* as first compiled */
	struct stat as_of;
	uint64_t request; /* the last one that included it */
	uint64_t checked; /* the last one before which it was looked at */
	bool declares, is_repeated;
	bool is_twice; /* that one has included it before */
} included;

static struct {
	bool is_active;
	bool is_validated; /* files are looked at for changes */
	uint64_t request;  /* 0 is the boot */
	HashTable files;   /* real path: included */
	included *repeated;
	uint32_t classes, functions; /* how many of the tables' buckets are older than the request */
	uint32_t boot_classes, boot_functions; /* how many of them are older than the first one */
} life;

static zend_op_array *(*php_compile)(zend_file_handle *handle, int type);
static zend_string *(*php_resolve)(zend_string *name);
static zif_handler php_class_alias;

/* The code declares something when it runs. */
static bool has_declarations(const zend_op_array *code)
{
	for (uint32_t i = 0; i < code->last; i++) {
		switch (code->opcodes[i].opcode) {
			case ZEND_DECLARE_CLASS:
			case ZEND_DECLARE_CLASS_DELAYED:
			case ZEND_DECLARE_FUNCTION:
				return true;
		}
	}
	return false;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec
		&& a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

static bool is_unchanged(const included *file)
{
	struct stat now;
	return !life.is_validated || (file->checked == life.request && life.request > 0) || (stat(ZSTR_VAL(file->path), &now) == 0 && is_same(&now, &file->as_of));
}

/* Keeps the code of a file that declares. */
static void keep(included *file, const zend_op_array *code)
{
	if (file->declares) {
		destroy_op_array(&file->code);
	}
	file->declares = true;
	file->code = *code;
	/* Each run gets its own. */
	ZEND_MAP_PTR_INIT(file->code.run_time_cache, NULL);
	if (code->refcount) {
		(*code->refcount)++;
	}
}

static zend_op_array *kept(included *file)
{
	zend_op_array *code = emalloc(sizeof(*code));
	*code = file->code;
	if (code->refcount) {
		(*code->refcount)++;
	}
	file->request = life.request;
	file->is_twice = false;
	if (!file->is_repeated) {
		file->is_repeated = true;
		file->next = life.repeated;
		life.repeated = file;
	}
	zend_hash_add_empty_element(&EG(included_files), file->path);
	return code;
}

static zend_op_array *compile(zend_file_handle *handle, int type)
{
	included *file = NULL;
	zend_string *path = NULL;
	struct stat before;

	if (life.is_active && handle->filename) {
		path = handle->opened_path ? zend_string_copy(handle->opened_path) : zend_resolve_path(handle->filename);
	}
	if (!path) {
		return php_compile(handle, type);
	}
	file = zend_hash_find_ptr(&life.files, path);
	if (file && file->declares && file->request != life.request && is_unchanged(file)) {
		zend_string_release(path);
		return kept(file);
	}
	bool is_twice = file && file->request == life.request && zend_hash_exists(&EG(included_files), path);
	/* First the file, then its code: what changes in between is seen the next time. */
	bool is_file = (!file || file->declares) && stat(ZSTR_VAL(path), &before) == 0;
	uint32_t classes = zend_hash_num_elements(CG(class_table)), functions = zend_hash_num_elements(CG(function_table));
	if (is_twice) {
		file->is_twice = true;
	}
	zend_op_array *code = php_compile(handle, type);
	if (code && is_file) {
		if (!file) {
			file = ecalloc(1, sizeof(*file));
			file->path = zend_string_copy(path);
			zend_hash_add_new_ptr(&life.files, path, file);
		}
		file->is_twice = is_twice;
		file->request = life.request;
		file->as_of = before;
		bool has_grown = zend_hash_num_elements(CG(class_table)) > classes || zend_hash_num_elements(CG(function_table)) > functions;
		if (has_grown || has_declarations(code)) {
			keep(file, code);
		}
	}
	zend_string_release(path);
	return code;
}

/* The frame is a front controller's: code of a file that an adapter of ours has included. */
static bool is_front(const zend_execute_data *at)
{
	const zend_execute_data *from = at->prev_execute_data;
	const char *folder = tutti_adapters;
	if (at->func->common.function_name || !from || !from->func || !ZEND_USER_CODE(from->func->type) || !folder[0]) {
		return false;
	}
	const zend_string *file = from->func->op_array.filename;
	size_t len = strlen(folder);
	return ZSTR_LEN(file) > len && memcmp(ZSTR_VAL(file), folder, len) == 0 && ZSTR_VAL(file)[len] == '/';
}

/* `$app = require_once …` means the value of the file, which is `true` when the process has included it; and a front controller that includes the file
 * which does the work means the work. Both run once in each request. The resolver is where PHP asks before it looks whether the file was included. */
static zend_string *resolve(zend_string *name)
{
	zend_string *path = php_resolve(name);
	const zend_execute_data *at = EG(current_execute_data);
	if (!life.is_active || !path || !at || !at->func || !ZEND_USER_CODE(at->func->type)) {
		return path;
	}
	const zend_op *op = at->opline;
	bool is_once = op->opcode == ZEND_INCLUDE_OR_EVAL && (op->extended_value == ZEND_INCLUDE_ONCE || op->extended_value == ZEND_REQUIRE_ONCE);
	if (is_once && (op->result_type != IS_UNUSED || is_front(at))) {
		zval *entry = zend_hash_find(&EG(included_files), path);
		if (entry && Z_TYPE_P(entry) == IS_TRUE) {
			zend_hash_del(&EG(included_files), path);
		}
	}
	return path;
}

/* Marks what this request has included: those entries are the last ones, and have no value yet. */
static void mark_included(void)
{
	HashTable *table = &EG(included_files);
	for (uint32_t i = table->nNumUsed; i > 0; i--) {
		zval *entry = &table->arData[i - 1].val;
		if (Z_TYPE_P(entry) == IS_TRUE) {
			return;
		}
		if (Z_TYPE_P(entry) != IS_UNDEF) {
			ZVAL_TRUE(entry);
		}
	}
}

/* Code that eval() compiles has the name of its place, and may be another text each time. */
static bool is_evaluated(const zend_string *file)
{
	static const char end[] = "eval()'d code";
	size_t len = sizeof(end) - 1;
	return ZSTR_LEN(file) >= len && memcmp(ZSTR_VAL(file) + ZSTR_LEN(file) - len, end, len) == 0;
}

/* The code that runs is the very file's; and not a second time in this request, which is the request's own fault. */
static bool is_from(const zend_string *file, const zend_execute_data *execute_data)
{
	const zend_op_array *code = &EX(func)->op_array;
	if (!file || !zend_string_equals(file, code->filename) || is_evaluated(file)) {
		return false;
	}
	const included *known = code->function_name ? NULL : zend_hash_find_ptr(&life.files, code->filename);
	return !known || !known->is_twice || known->request != life.request;
}

/* The line a class begins at, from the key that it has until it is declared (zend_compile.c): NUL, name, file, `:`, line, `$`, a number. */
static uint32_t line_of(const zend_string *key)
{
	const char *colon = zend_memrchr(ZSTR_VAL(key), ':', ZSTR_LEN(key));
	return colon ? (uint32_t) strtoul(colon + 1, NULL, 10) : 0;
}

static int declare_class(zend_execute_data *execute_data)
{
	const zend_op *opline = EX(opline);
	if (life.is_active) {
		zval *name = RT_CONSTANT(opline, opline->op1);
		zval *entry = zend_hash_find(EG(class_table), Z_STR_P(name));
		const zend_class_entry *class = entry ? Z_CE_P(entry) : NULL;
		if (class && class->type == ZEND_USER_CLASS && tutti_is_before(EG(class_table), entry, life.classes)
		    && is_from(class->info.user.filename, execute_data) && line_of(Z_STR_P(name + 1)) == class->info.user.line_start) {
			EX(opline)++;
			return ZEND_USER_OPCODE_CONTINUE;
		}
	}
	return ZEND_USER_OPCODE_DISPATCH;
}

static int declare_function(zend_execute_data *execute_data)
{
	const zend_op *opline = EX(opline);
	if (life.is_active) {
		zval *entry = zend_hash_find(EG(function_table), Z_STR_P(RT_CONSTANT(opline, opline->op1)));
		const zend_function *function = entry ? Z_PTR_P(entry) : NULL;
		const zend_op_array *again = EX(func)->op_array.dynamic_func_defs[opline->op2.num];
		if (function && function->type == ZEND_USER_FUNCTION && tutti_is_before(EG(function_table), entry, life.functions)
		    && is_from(function->op_array.filename, execute_data) && function->op_array.line_start == again->line_start) {
			EX(opline)++;
			return ZEND_USER_OPCODE_CONTINUE;
		}
	}
	return ZEND_USER_OPCODE_DISPATCH;
}

/* An alias that an earlier request has made is there. Where that was another class's, PHP would only warn, and the request would go on with a class that it
 * does not mean: it ends as with any other name that two declare. */
static PHP_FUNCTION(resident_class_alias)
{
	zval *class = ZEND_CALL_ARG(execute_data, 1), *alias = ZEND_CALL_ARG(execute_data, 2);
	if (life.is_active && ZEND_NUM_ARGS() >= 2 && Z_TYPE_P(class) == IS_STRING && Z_TYPE_P(alias) == IS_STRING) {
		size_t skip = Z_STRLEN_P(alias) > 0 && Z_STRVAL_P(alias)[0] == '\\';
		zend_string *name = zend_string_init(Z_STRVAL_P(alias) + skip, Z_STRLEN_P(alias) - skip, 0), *lower = zend_string_tolower(name);
		zval *entry = zend_hash_find(EG(class_table), lower);
		bool is_earlier = entry && tutti_is_before(EG(class_table), entry, life.classes);
		bool is_of_boot = is_earlier && tutti_is_before(EG(class_table), entry, life.boot_classes);
		/* To load the class may move the table. */
		const zend_class_entry *known = is_earlier ? Z_CE_P(entry) : NULL;
		const zend_class_entry *meant = known ? zend_lookup_class(Z_STR_P(class)) : NULL;
		zend_string_release(lower);
		zend_string_release(name);
		if (EG(exception)) {
			RETURN_THROWS();
		}
		if (meant && meant == known) {
			RETURN_TRUE;
		}
		if (meant && meant->type == ZEND_USER_CLASS && !is_of_boot) {
			zend_error_noreturn(E_COMPILE_ERROR, "Cannot declare class %s, because the name is already in use", Z_STRVAL_P(alias) + skip);
		}
	}
	php_class_alias(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

/* Before any code is compiled that may run in a request: code remembers its handlers. */
void tutti_declared_handle_opcodes(void)
{
	zend_set_user_opcode_handler(ZEND_DECLARE_CLASS, declare_class);
	zend_set_user_opcode_handler(ZEND_DECLARE_CLASS_DELAYED, declare_class);
	zend_set_user_opcode_handler(ZEND_DECLARE_FUNCTION, declare_function);
	tutti_constants_handle_opcodes();
	tutti_boot_handle_opcodes();
}

/* In the prototype, once, after PHP has started: opcache has put itself before the compiler, and we before opcache. */
void tutti_declared_startup(void)
{
	php_compile = zend_compile_file;
	zend_compile_file = compile;
	php_resolve = zend_resolve_path;
	zend_resolve_path = resolve;
	tutti_declared_handle_opcodes();
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("class_alias"));
	if (function && function->type == ZEND_INTERNAL_FUNCTION) {
		php_class_alias = function->internal_function.handler;
		function->internal_function.handler = ZEND_FN(resident_class_alias);
	}
	tutti_constants_startup();
}

void tutti_declared_begin_life(void)
{
	memset(&life, 0, sizeof(life));
	zend_hash_init(&life.files, 16, NULL, NULL, 0);
	life.is_validated = !tutti_php_opcache_enabled() || zend_ini_long(ZEND_STRL("opcache.validate_timestamps"), 0);
	life.is_active = true;
	tutti_constants_begin_life();
}

/* The kept code was in PHP's memory, which has gone as a whole. */
void tutti_declared_end_life(void)
{
	memset(&life, 0, sizeof(life));
	tutti_constants_end_life();
}

/* The boot, or a request, is over. */
void tutti_declared_end_request(void)
{
	mark_included();
	life.request++;
	life.classes = EG(class_table)->nNumUsed;
	life.functions = EG(function_table)->nNumUsed;
	if (life.request == 1) {
		life.boot_classes = life.classes;
		life.boot_functions = life.functions;
	}
	tutti_constants_end_request(life.request == 1);
}

/* A file that requests declare from again and again is not as it was. Looked at between two requests. */
bool tutti_declared_changed(void)
{
	for (included *file = life.repeated; file; file = file->next) {
		if (is_unchanged(file)) {
			file->checked = life.request;
		} else {
			char text[1024];
			int len = snprintf(text, sizeof(text), "`%s` has changed, and this process has declarations from it: the script boots anew before the next request",
				ZSTR_VAL(file->path));
			host_log(text, MIN((size_t) len, sizeof(text) - 1), LOG_NOTICE);
			return true;
		}
	}
	return false;
}

/* Where a class or a function was declared before this request. */
typedef struct {
	const zend_string *file; /* NULL: it was not */
	uint32_t line;
	bool is_of_boot;
} place;

static place declared_in(const char *name, size_t len)
{
	zend_string *lower = zend_string_alloc(len, 0);
	zend_str_tolower_copy(ZSTR_VAL(lower), name, len);
	const HashTable *classes = EG(class_table), *functions = EG(function_table);
	const zval *class = zend_hash_find(classes, lower), *function = zend_hash_find(functions, lower);
	zend_string_release(lower);
	if (class && Z_CE_P(class)->type == ZEND_USER_CLASS && tutti_is_before(classes, class, life.classes)) {
		return (place) {Z_CE_P(class)->info.user.filename, Z_CE_P(class)->info.user.line_start, tutti_is_before(classes, class, life.boot_classes)};
	}
	if (function && Z_FUNC_P(function)->type == ZEND_USER_FUNCTION && tutti_is_before(functions, function, life.functions)) {
		const zend_op_array *code = &Z_FUNC_P(function)->op_array;
		return (place) {code->filename, code->line_start, tutti_is_before(functions, function, life.boot_functions)};
	}
	return (place) {NULL, 0, false};
}

/* The name that a message of PHP says is declared already. */
static const char *name_in(const char *message, size_t *len)
{
	static const char *const beginnings[] = {"Cannot declare ", "Cannot redeclare "};
	static const char *const kinds[] = {"class ", "interface ", "trait ", "enum ", "function "};
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++) {
		if (strncmp(message, beginnings[i], strlen(beginnings[i])) != 0) {
			continue;
		}
		const char *name = message + strlen(beginnings[i]);
		for (size_t j = 0; j < sizeof(kinds) / sizeof(*kinds); j++) {
			if (strncmp(name, kinds[j], strlen(kinds[j])) == 0) {
				name += strlen(kinds[j]);
				break;
			}
		}
		*len = strcspn(name, "(, ");
		return name;
	}
	return NULL;
}

/* This request has included the file twice: what it declares twice is the request's own fault. */
static bool is_own_fault(zend_string *file)
{
	const included *known = zend_hash_find_ptr(&life.files, file);
	return known && known->is_twice && known->request == life.request;
}

/* The request has ended with a fatal error: true if that was a declaration of what an earlier request had declared elsewhere, so that no process may
 * serve a second request. The log says so. A request that declares the same twice has failed by itself, and one that declares what the boot has
 * declared would fail in every process: then the log says that alone. The code of files that are no plain files (in a `phar`) is not kept, so it declares
 * elsewhere each time. */
bool tutti_declared_conflict(void)
{
	char text[2048];
	size_t len;
	static const char each[] = "an earlier request: one process cannot have both. From here on the script boots anew for each request (hint: give them different "
		"names, or declare only what `class_exists()` and `function_exists()` do not know; or leave out `mode`)";
	static const char boot[] = "the boot: no request can have both (hint: give them different names, or leave it to the requests)";

	const char *name = life.is_active && PG(last_error_message) && PG(last_error_file) ? name_in(ZSTR_VAL(PG(last_error_message)), &len) : NULL;
	place before = name ? declared_in(name, len) : (place) {NULL, 0, false};
	zend_string *again = PG(last_error_file);
	if (!before.file || (zend_string_equals(before.file, again) && is_own_fault(again))) {
		return false;
	}
	int written = snprintf(text, sizeof(text), "`%s` line %d declares `%.*s`, which `%s` line %u has declared in %s", ZSTR_VAL(again), PG(last_error_lineno),
		(int) len, name, ZSTR_VAL(before.file), before.line, before.is_of_boot ? boot : each);
	host_log(text, MIN((size_t) written, sizeof(text) - 1), LOG_ERR);
	return !before.is_of_boot;
}
