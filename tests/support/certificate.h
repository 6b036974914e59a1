/* Certificates for tests, made on the spot. */
#pragma once

#include "support/process.h"

#include <stdio.h>
#include <stdlib.h>

struct certificate {
        char *folder;
        char path[128];
        char key_path[128];
};

/* Self-signed, for `subject_names` as openssl writes them ("DNS:localhost"); valid for so many
 * days, until yesterday with "-1". */
static inline void certificate_make_for(
    struct certificate *certificate, const char *subject_names, const char *days)
{
        char request_path[128];
        char extension[128];

        certificate->folder = temp_folder();
        snprintf(certificate->path, sizeof certificate->path, "%s/cert.pem", certificate->folder);
        snprintf(
            certificate->key_path, sizeof certificate->key_path, "%s/key.pem", certificate->folder);
        snprintf(extension, sizeof extension, "subjectAltName=%s", subject_names);
        snprintf(request_path, sizeof request_path, "%s/request.pem", certificate->folder);
        const char *const request[] = {"openssl", "req", "-new", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=pgcourier test", "-addext",
            extension, "-keyout", certificate->key_path, "-out", request_path, NULL};
        const char *const sign[] = {"openssl", "x509", "-req", "-in", request_path, "-signkey",
            certificate->key_path, "-copy_extensions", "copy", "-days", days, "-out",
            certificate->path, NULL};

        if (process_run(request, NULL, true) != 0 || process_run(sign, NULL, true) != 0)
                test_abort("openssl cannot make a certificate");
}

static inline void certificate_make(struct certificate *certificate, const char *subject_names)
{
        certificate_make_for(certificate, subject_names, "2");
}
