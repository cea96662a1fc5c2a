/* Directives of php.ini: which there are, what they are, and which no script may change. */

#include <php.h>
#include <zend_ini.h>
#include "internal.h"

static zend_ini_entry *directive(const char *name, size_t len)
{
	return zend_hash_str_find_ptr(EG(ini_directives), name, len);
}

int tutti_php_has_directive(const char *name, size_t len)
{
	return directive(name, len) != NULL;
}

int tutti_php_lock_directive(const char *name, size_t len)
{
	zend_ini_entry *entry = directive(name, len);
	if (!entry) {
		return 0;
	}
	entry->modifiable = ZEND_INI_SYSTEM;
	return 1;
}

int64_t tutti_php_directive(const char *name, size_t len)
{
	zend_ini_entry *entry = directive(name, len);
	return entry && entry->value ? ZEND_STRTOL(ZSTR_VAL(entry->value), NULL, 0) : 0;
}

int tutti_php_opcache_enabled(void)
{
	zend_ini_entry *entry = directive(ZEND_STRL("opcache.enable"));
	return entry && entry->value && zend_ini_parse_bool(entry->value);
}
