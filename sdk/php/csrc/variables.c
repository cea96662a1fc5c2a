/* $_SERVER and getenv(). Built only when a script asks (auto_globals_jit), from the list that Rust makes. */

#include <php.h>
#include <php_variables.h>
#include <SAPI.h>
#include <ext/standard/info.h>
#include "internal.h"

/* A string that outlives every request and is never counted. */
void *tutti_php_permanent(const char *data, size_t len)
{
	zend_string *string = zend_string_init(data, len, 1);
	zend_string_hash_val(string);
	GC_ADD_FLAGS(string, IS_STR_INTERNED | IS_STR_PERMANENT);
	return string;
}

/* ext/filter keeps a copy of all input for filter_input(). With the default filter, which changes nothing, the copy of $_SERVER is made when a
 * script first asks for it: it costs as much as $_SERVER itself. */
static bool copy_later;
static bool copied;
static zif_handler php_filter_input, php_filter_input_array, php_filter_has_var;

static bool has_input_filter(void)
{
	return sapi_module.input_filter && sapi_module.input_filter != php_default_input_filter;
}

/* Shows ext/filter one variable; false when it refuses it. `value` is what becomes of it, to be freed. */
static bool filter_variable(const tutti_variable *variable, char **value, size_t *len)
{
	char name[256];
	size_t name_len = MIN(variable->name.len, sizeof(name) - 1);
	memcpy(name, variable->name.data, name_len);
	name[name_len] = 0;
	*len = variable->value.len;
	*value = estrndup(variable->value.data, variable->value.len);
	return sapi_module.input_filter(PARSE_SERVER, name, value, *len, len) != 0;
}

static void copy_for_filter(void)
{
	const tutti_variable *variables;
	if (copied || !SG(server_context)) {
		return;
	}
	copied = true;
	size_t count = host_variables(&variables);
	for (size_t i = 0; i < count; i++) {
		char *value;
		size_t len;
		filter_variable(&variables[i], &value, &len);
		efree(value);
	}
}

static PHP_FUNCTION(copying_filter_input)
{
	copy_for_filter();
	php_filter_input(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(copying_filter_input_array)
{
	copy_for_filter();
	php_filter_input_array(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static PHP_FUNCTION(copying_filter_has_var)
{
	copy_for_filter();
	php_filter_has_var(INTERNAL_FUNCTION_PARAM_PASSTHRU);
}

static bool wrap(const char *name, size_t len, zif_handler wrapper, zif_handler *original)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), name, len);
	if (!function || function->type != ZEND_INTERNAL_FUNCTION) {
		return false;
	}
	*original = function->internal_function.handler;
	function->internal_function.handler = wrapper;
	return true;
}

/* $_ENV, and `getenv()` without a name: they have the variables of the request, too, as in FPM. */
static void (*php_import)(zval *array);

static void import_with_request(zval *array)
{
	php_import(array);
	tutti_register_variables(array);
}

void tutti_variables_startup(void)
{
	php_import = php_import_environment_variables;
	php_import_environment_variables = import_with_request;
	const char *filter = zend_ini_string("filter.default", sizeof("filter.default") - 1, 0);
	if (has_input_filter() && (!filter || !*filter || strcasecmp(filter, "unsafe_raw") == 0)) {
		copy_later = wrap(ZEND_STRL("filter_input"), ZEND_FN(copying_filter_input), &php_filter_input)
			&& wrap(ZEND_STRL("filter_input_array"), ZEND_FN(copying_filter_input_array), &php_filter_input_array)
			&& wrap(ZEND_STRL("filter_has_var"), ZEND_FN(copying_filter_has_var), &php_filter_has_var);
	}
}

void tutti_variables_request(void)
{
	copied = false;
}

void tutti_register_variables(zval *array)
{
	const tutti_variable *variables;
	HashTable *table = Z_ARRVAL_P(array);
	bool filtered = has_input_filter() && !copy_later;

	if (!SG(server_context) && !tutti_booting) {
		return;
	}
	size_t count = host_variables(&variables);
	/* And what PHP adds itself: time, authentication, arguments. */
	zend_hash_extend(table, (uint32_t) count + 8, 0);
	for (size_t i = 0; i < count; i++) {
		const tutti_variable *variable = &variables[i];
		zval value;
		if (filtered) {
			char *text;
			size_t len;
			if (!filter_variable(variable, &text, &len)) {
				efree(text);
				continue;
			}
			ZVAL_STRINGL_FAST(&value, text, len);
			efree(text);
		} else if (variable->constant) {
			ZVAL_STR(&value, variable->constant);
		} else {
			ZVAL_STRINGL_FAST(&value, variable->value.data, variable->value.len);
		}
		if (variable->key) {
			zend_hash_update(table, variable->key, &value);
		} else {
			/* A numeric name cannot occur: all begin with a letter. */
			zend_hash_str_update(table, variable->name.data, variable->name.len, &value);
		}
	}
}

char *tutti_getenv(const char *name, size_t len)
{
	tutti_bytes value;
	static char *kept;
	static size_t kept_size;

	if (!SG(server_context) || !host_getenv(name, len, &value)) {
		return NULL;
	}
	/* PHP copies it at once; it must end with NUL, which the bytes need not. */
	if (value.len + 1 > kept_size) {
		char *grown = realloc(kept, value.len + 1);
		if (!grown) {
			return NULL;
		}
		kept = grown;
		kept_size = value.len + 1;
	}
	memcpy(kept, value.data, value.len);
	kept[value.len] = 0;
	return kept;
}
