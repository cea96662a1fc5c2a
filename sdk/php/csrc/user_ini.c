/* `.user.ini`: settings of the folders from the root of a target down to that of a script, as PHP documents them for its CGI and FPM.
 *
 * Only settings that may be changed for a folder (PHP_INI_PERDIR) count, so none that `options.admin` has locked. PHP itself takes all of them
 * back at the end of the request. What the files of a folder say is kept for `user_ini.cache_ttl`, also that there are none: a request costs no
 * system call for them. */

#include <php.h>
#include <php_globals.h>
#include <php_ini.h>
#include <SAPI.h>
#include "internal.h"

/* Folders at most; more than that empty the table. As many as script.rs keeps. */
#define FOLDERS_MAX 4096

typedef struct {
	double until; /* seconds since the epoch */
	HashTable settings;
} folder;

/* By the number of the folder, which is another one for each target. */
static HashTable folders;

static void forget_folder(zval *entry)
{
	folder *old = Z_PTR_P(entry);
	zend_hash_destroy(&old->settings);
	pefree(old, 1);
}

void tutti_user_ini_startup(void)
{
	zend_hash_init(&folders, 8, NULL, forget_folder, 1);
}

/* Reads the files of all folders on the way to the script: one further down has the last word. */
static void read_files(const tutti_script *script, HashTable *settings)
{
	size_t len = strlen(script->directory), end = MIN(script->root_len, len);
	char *path = estrndup(script->directory, len);

	for (;;) {
		char next = path[end];
		path[end] = 0;
		php_parse_user_ini_file(path, PG(user_ini_filename), settings);
		path[end] = next;
		if (end >= len) {
			break;
		}
		const char *slash = memchr(path + end + 1, '/', len - end - 1);
		end = slash ? (size_t) (slash - path) : len;
	}
	efree(path);
}

/* At the start of a request. A resident script has none of its own: its settings are those of its boot. */
void tutti_user_ini_apply(void)
{
	const tutti_request *request = SG(server_context);

	if (!request || tutti_resident || !PG(user_ini_filename) || !*PG(user_ini_filename)) {
		return;
	}
	const tutti_script *script = &request->script;
	folder *known = zend_hash_index_find_ptr(&folders, (zend_ulong) script->directory_number);
	/* A clock that has been set back must not keep it for ever. */
	if (!known || request->time >= known->until || known->until - request->time > (double) PG(user_ini_cache_ttl)) {
		if (zend_hash_num_elements(&folders) >= FOLDERS_MAX) {
			zend_hash_clean(&folders);
		}
		known = pemalloc(sizeof(folder), 1);
		known->until = request->time + (double) PG(user_ini_cache_ttl);
		zend_hash_init(&known->settings, 8, NULL, config_zval_dtor, 1);
		zend_hash_index_update_ptr(&folders, (zend_ulong) script->directory_number, known);
		read_files(script, &known->settings);
	}
	if (zend_hash_num_elements(&known->settings)) {
		php_ini_activate_config(&known->settings, PHP_INI_PERDIR, PHP_INI_STAGE_HTACCESS);
	}
}
