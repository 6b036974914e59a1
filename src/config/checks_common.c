#include "config/checks_common.h"

#include <stddef.h>

const char *written_as(
    const struct source *source, const char *path, const char *name, const char *file_name)
{
        return source_has(source, path, file_name) ? file_name : name;
}

bool refuse_keys(
    const struct source *source, const char *path, const char *const *names, const char *reason)
{
        for (; *names != NULL; names++)
                if (source_has(source, path, *names))
                        return source_fail(source, path, *names, "%s", reason);
        return true;
}

bool check_login(
    const struct source *source, const char *user, const char *password, const char *path)
{
        if (user != NULL && password == NULL)
                return source_fail(source, path, "user",
                    "is given without password or password_file; logging in needs both");
        if (user == NULL && password != NULL)
                return source_fail(source, path,
                    written_as(source, path, "password", "password_file"),
                    "is given without user; logging in needs both");
        return true;
}

bool check_certificate(
    const struct source *source, const char *cert_file, const char *key_file, const char *path)
{
        if (cert_file != NULL && key_file == NULL)
                return source_fail(
                    source, path, "cert_file", "is given without key_file; TLS needs both");
        if (cert_file == NULL && key_file != NULL)
                return source_fail(
                    source, path, "key_file", "is given without cert_file; TLS needs both");
        return true;
}

bool check_debezium_nulls(
    const struct source *source, const struct debezium_config *debezium, const char *path)
{
        if (debezium->key != DEBEZIUM_STRING && source_has(source, path, "null_key"))
                return source_fail(source, path, "null_key",
                    "is only for key: string; as JSON, a key that is null is the word null");
        if (debezium->value != DEBEZIUM_STRING && !debezium->tombstone &&
            source_has(source, path, "null_value"))
                return source_fail(source, path, "null_value",
                    "is only for value: string and for tombstone: true; else a payload that is "
                    "null is the word null");
        return true;
}
