/* Constants of a resident script: a request that defines one which an earlier request has defined gives it its value anew, as in a process of its
 * own. Constants are never taken away: compiled code remembers where they are.
 *
 * Called by declared.c. One that the boot has defined keeps its value: PHP warns of another, as ever.
 */

#include <php.h>
#include <zend_constants.h>
#include <zend_execute.h>
#include <zend_vm_opcodes.h>
#include "internal.h"

static struct {
	bool is_active;
	uint32_t of_boot, older; /* how many of the table's buckets are older than the first request, and than this one */
	HashTable redefined;     /* by this request */
} life;

static zif_handler php_define;

/* The constant, if an earlier request or the boot has defined it. */
static zval *earlier(zend_string *name)
{
	zval *entry;
	const char *slash = zend_memrchr(ZSTR_VAL(name), '\\', ZSTR_LEN(name));
	if (slash) {
		/* Namespaces have no case. */
		zend_string *key = zend_string_init(ZSTR_VAL(name), ZSTR_LEN(name), 0);
		zend_str_tolower(ZSTR_VAL(key), (size_t) (slash - ZSTR_VAL(name)));
		entry = zend_hash_find(EG(zend_constants), key);
		zend_string_release(key);
	} else {
		entry = zend_hash_find(EG(zend_constants), name);
	}
	if (!entry) {
		return NULL;
	}
	const zend_constant *constant = Z_PTR_P(entry);
	bool is_earlier = ZEND_CONSTANT_MODULE_NUMBER(constant) == PHP_USER_CONSTANT && tutti_is_before(EG(zend_constants), entry, life.older);
	return is_earlier && !zend_hash_exists(&life.redefined, constant->name) ? entry : NULL;
}

/* Gives the constant the value and takes the old one away. False if it is the boot's, and another. */
static bool redefine(zval *entry, zval *value)
{
	zend_constant *constant = Z_PTR_P(entry);
	if (!zend_is_identical(&constant->value, value)) {
		if (tutti_is_before(EG(zend_constants), entry, life.of_boot)) {
			return false;
		}
		zval old;
		ZVAL_COPY_VALUE(&old, &constant->value);
		ZVAL_COPY(&constant->value, value);
		zval_ptr_dtor(&old);
	}
	zend_hash_add_empty_element(&life.redefined, constant->name);
	return true;
}

static PHP_FUNCTION(resident_define)
{
	zval *name = ZEND_CALL_ARG(execute_data, 1), *value = ZEND_CALL_ARG(execute_data, 2), *entry;
	if (!life.is_active || ZEND_NUM_ARGS() < 2 || Z_TYPE_P(name) != IS_STRING || !(entry = earlier(Z_STR_P(name)))) {
		php_define(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		return;
	}
	if (Z_TYPE_P(value) != IS_ARRAY) {
		if (redefine(entry, value)) {
			RETURN_TRUE;
		}
		php_define(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		return;
	}
	/* PHP itself looks at an array and copies it, under a name that no script uses. */
	zval own;
	ZVAL_COPY_VALUE(&own, name);
	zend_string *other = zend_string_init(ZEND_STRL("tutti\1redefined"), 0);
	ZVAL_STR(name, other);
	php_define(INTERNAL_FUNCTION_PARAM_PASSTHRU);
	ZVAL_COPY_VALUE(name, &own);
	zval *copy = zend_hash_find(EG(zend_constants), other);
	if (copy) {
		bool is_taken = redefine(entry, &((zend_constant *) Z_PTR_P(copy))->value);
		zend_hash_del(EG(zend_constants), other);
		if (!is_taken) {
			php_define(INTERNAL_FUNCTION_PARAM_PASSTHRU);
		}
	}
	zend_string_release(other);
}

static int declare_constant(zend_execute_data *execute_data)
{
	const zend_op *opline = EX(opline);
	zval *entry = life.is_active ? earlier(Z_STR_P(RT_CONSTANT(opline, opline->op1))) : NULL;
	if (!entry) {
		return ZEND_USER_OPCODE_DISPATCH;
	}
	zval value;
	ZVAL_COPY(&value, RT_CONSTANT(opline, opline->op2));
	if (Z_TYPE(value) == IS_CONSTANT_AST && zval_update_constant_ex(&value, EX(func)->op_array.scope) != SUCCESS) {
		zval_ptr_dtor_nogc(&value);
		/* An exception: it has set the opcode to go on with. */
		return ZEND_USER_OPCODE_CONTINUE;
	}
	bool is_taken = redefine(entry, &value);
	zval_ptr_dtor(&value);
	if (!is_taken) {
		return ZEND_USER_OPCODE_DISPATCH;
	}
	EX(opline)++;
	return ZEND_USER_OPCODE_CONTINUE;
}

void tutti_constants_handle_opcodes(void)
{
	zend_set_user_opcode_handler(ZEND_DECLARE_CONST, declare_constant);
}

void tutti_constants_startup(void)
{
	zend_function *function = zend_hash_str_find_ptr(CG(function_table), ZEND_STRL("define"));
	if (function && function->type == ZEND_INTERNAL_FUNCTION) {
		php_define = function->internal_function.handler;
		function->internal_function.handler = ZEND_FN(resident_define);
	}
}

void tutti_constants_begin_life(void)
{
	memset(&life, 0, sizeof(life));
	zend_hash_init(&life.redefined, 8, NULL, NULL, 0);
	/* Else code that is compiled without opcache would keep the value that a constant has then. */
	CG(compiler_options) |= ZEND_COMPILE_NO_CONSTANT_SUBSTITUTION;
	life.is_active = true;
}

void tutti_constants_end_life(void)
{
	memset(&life, 0, sizeof(life));
}

void tutti_constants_end_request(bool was_boot)
{
	life.older = EG(zend_constants)->nNumUsed;
	if (was_boot) {
		life.of_boot = life.older;
	}
	if (zend_hash_num_elements(&life.redefined) > 0) {
		zend_hash_clean(&life.redefined);
	}
}
