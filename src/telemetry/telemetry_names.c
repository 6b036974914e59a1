/* The closed sets, in the words of metrics, logs and the status document. */
#include "telemetry/telemetry.h"

#include <stdlib.h>

const char *sink_state_name(enum sink_state state)
{
        switch (state) {
        case SINK_STARTING:
                return "starting";
        case SINK_RUNNING:
                return "running";
        case SINK_STANDBY:
                return "standby";
        case SINK_PAUSED:
                return "paused";
        case SINK_REFUSED:
                return "refused";
        case SINK_DOWN:
                return "down";
        case SINK_STALLED:
                return "stalled";
        case SINK_DRAINING:
                return "draining";
        case SINK_DISCONNECTED:
                return "disconnected";
        }
        abort();
}

const char *redelivery_cause_name(enum redelivery_cause cause)
{
        switch (cause) {
        case REDELIVERY_CRASH:
                return "crash";
        case REDELIVERY_TIMEOUT:
                return "timeout";
        case REDELIVERY_REPLAY:
                return "replay";
        }
        abort();
}

const char *telemetry_stage_name(enum telemetry_stage stage)
{
        switch (stage) {
        case STAGE_PICKUP:
                return "pickup";
        case STAGE_QUEUE:
                return "queue";
        case STAGE_SEND:
                return "send";
        case STAGE_SETTLE:
                return "settle";
        }
        abort();
}

const char *wakeup_cause_name(enum wakeup_cause cause)
{
        switch (cause) {
        case WAKEUP_BY_NOTIFY:
                return "notify";
        case WAKEUP_BY_POLL:
                return "poll";
        case WAKEUP_BY_TIMER:
                return "timer";
        case WAKEUP_BY_CONTROL:
                return "control";
        }
        abort();
}

const char *telemetry_fault_name(enum outcome_fault fault)
{
        switch (fault) {
        case OUTCOME_FAULT_OTHER:
                return "other";
        case OUTCOME_FAULT_TIMEOUT:
                return "timeout";
        case OUTCOME_FAULT_LOST:
                return "lost";
        case OUTCOME_FAULT_REFUSED:
                return "refused";
        case OUTCOME_FAULT_DNS:
                return "dns";
        case OUTCOME_FAULT_TLS:
                return "tls";
        case OUTCOME_FAULT_AUTH:
                return "auth";
        case OUTCOME_FAULT_HTTP_4XX:
                return "http_4xx";
        case OUTCOME_FAULT_HTTP_429:
                return "http_429";
        case OUTCOME_FAULT_HTTP_5XX:
                return "http_5xx";
        case OUTCOME_FAULT_SMTP_4XX:
                return "smtp_4xx";
        case OUTCOME_FAULT_SMTP_5XX:
                return "smtp_5xx";
        case OUTCOME_FAULT_REDIS:
                return "redis";
        case OUTCOME_FAULT_PROTOCOL:
                return "protocol";
        case OUTCOME_FAULT_TOO_LARGE:
                return "too_large";
        case OUTCOME_FAULT_EVENT:
                return "event";
        }
        abort();
}
