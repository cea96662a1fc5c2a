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

void tutti_register_variables(zval *array)
{
	const tutti_variable *variables;
	HashTable *table = Z_ARRVAL_P(array);
	/* ext/filter keeps its own copy for filter_input(INPUT_SERVER, ...). */
	bool filtered = sapi_module.input_filter && sapi_module.input_filter != php_default_input_filter;

	if (!SG(server_context)) {
		return;
	}
	size_t count = host_variables(&variables);
	for (size_t i = 0; i < count; i++) {
		const tutti_variable *variable = &variables[i];
		zval value;
		if (filtered) {
			char *copy = estrndup(variable->value.data, variable->value.len);
			size_t len = variable->value.len;
			char name[256];
			size_t name_len = MIN(variable->name.len, sizeof(name) - 1);
			memcpy(name, variable->name.data, name_len);
			name[name_len] = 0;
			if (!sapi_module.input_filter(PARSE_SERVER, name, &copy, len, &len)) {
				efree(copy);
				continue;
			}
			if (!variable->constant || len != variable->value.len || memcmp(copy, variable->value.data, len)) {
				ZVAL_STRINGL_FAST(&value, copy, len);
			} else {
				ZVAL_STR(&value, variable->constant);
			}
			efree(copy);
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
	tutti_span value;
	static char *kept;
	static size_t kept_size;

	if (!SG(server_context) || !host_getenv(name, len, &value)) {
		return NULL;
	}
	/* PHP copies it at once; it must end with NUL, which the span need not. */
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
