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

/* Self-signed, for `subject_names` as openssl writes them ("DNS:localhost"). */
static inline void certificate_make(struct certificate *certificate, const char *subject_names)
{
        char extension[128];

        certificate->folder = temp_folder();
        snprintf(certificate->path, sizeof certificate->path, "%s/cert.pem", certificate->folder);
        snprintf(
            certificate->key_path, sizeof certificate->key_path, "%s/key.pem", certificate->folder);
        snprintf(extension, sizeof extension, "subjectAltName=%s", subject_names);
        const char *const argv[] = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=pgcourier test",
            "-addext", extension, "-keyout", certificate->key_path, "-out", certificate->path,
            NULL};

        if (process_run(argv, NULL, false) != 0)
                test_abort("openssl cannot make a certificate");
}
