/*
 * Drops expired partitions of the outbox at once, all the time: partitions of some hundred ids,
 * nothing kept for its age. What is still needed would be missing in the end.
 */
#pragma once

struct trimmer;

/* Before anything is published. `dsn` is the superuser's, and borrowed. */
struct trimmer *trimmer_start(const char *dsn, unsigned n_lanes);

/* Ends it; how many partitions it dropped. */
unsigned trimmer_stop(struct trimmer *trimmer);
