/*
 * A payload as Debezium's outbox router expands it (`table.expand.json.payload`): the JSON object
 * is read, given a schema, and written anew.
 *
 *   - Blanks go, and of members with the same name the last remains, in the place of the first.
 *   - Numbers are int32, int64 or double: 1.50 becomes 1.5, 1e2 becomes 100.0.
 *   - A member that is null, or an empty array, goes, as by the defaults of
 *     `table.json.payload.null.behavior` and `….empty.array.behavior`.
 *   - The objects of an array share one schema: where one lacks a member of another, it is null.
 *
 * Debezium leaves a payload unexpanded that is no object (or begins with a blank), has a member
 * without a name, an array of several types (1 and 2.5 are two), of nulls only, or whose first item
 * is an empty array, or exceeds Jackson's limits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct bytes;

/*
 * Appends the payload `json`, of `length` bytes, with a NUL behind them. False, and nothing is
 * appended, if Debezium leaves it unexpanded, and where expanding would not be faithful:
 *
 *   - Debezium fails, and stops: an integer beyond int64, a member with two types in an array.
 *   - It is changed beyond recognition: a number beyond double ("Infinity").
 *   - It is no Unicode: half a surrogate pair; or a name with U+0000.
 *   - It would grow by more than 16 MiB and twice its length.
 *
 * Of objects in objects of an array, Debezium takes the members of one only, and loses the others.
 * Here they share one schema like those above them.
 */
bool debezium_append_expanded(struct bytes *out, const char *json, size_t length);
