#include "pg/session_start.h"

static void ignore_notice(void *owner, const PGresult *notice)
{
        (void)owner;
        (void)notice;
}

PGconn *session_start(
    const struct postgres_config *config, const struct tls_default *tls, const char *instance)
{
        /* Later entries win, and so does what the DSN says over what stands before it. */
        const char *keywords[13];
        const char *values[13];
        int n = 0;
        PGconn *pq;

#define OPTION(name, value) (keywords[n] = (name), values[n] = (value), n++)
        OPTION("fallback_application_name", instance);
        OPTION("keepalives_idle", "1"); /* see DEAD_CLIENT_SETTINGS */
        OPTION("keepalives_interval", "1");
        OPTION("keepalives_count", "3");
        OPTION("tcp_user_timeout", "3500");
        OPTION("target_session_attrs", "read-write");
        if (tls->sslmode != NULL)
                OPTION("sslmode", tls->sslmode);
        if (tls->sslrootcert != NULL)
                OPTION("sslrootcert", tls->sslrootcert);
        OPTION("dbname", config->dsn);
        OPTION("client_encoding", "UTF8");
        if (config->password != NULL)
                OPTION("password", config->password);
        OPTION(NULL, NULL);
#undef OPTION
        pq = PQconnectStartParams(keywords, values, 1);
        if (pq != NULL) {
                PQsetErrorVerbosity(pq, PQERRORS_VERBOSE); /* why it is refused, in any language */
                PQsetNoticeReceiver(pq, ignore_notice, NULL);
        }
        return pq;
}
