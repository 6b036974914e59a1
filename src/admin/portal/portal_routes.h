/* What can be asked of the portal: one table. */
#pragma once

#include "admin/portal/portal.h"

struct portal_route {
        const char *method;
        const char *path; /* "*" stands for one segment */
        enum portal_question question;
        const char *right; /* what portal.manage must allow; NULL: reading needs nothing */
        double cost;       /* in tokens of the link's bucket */
};

/* Ends with a NULL path. */
extern const struct portal_route portal_routes[];
