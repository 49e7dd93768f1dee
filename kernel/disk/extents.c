// SPDX-License-Identifier: GPL-2.0
/* Ordered runs of sectors: rules in extents.h. */
#include "extents.h"

size_t extents_bytes(u32 limit)
{
	return (limit + 1ULL) * sizeof(struct extents_node);
}

void extents_create(struct extents *extents, void *memory, u32 limit)
{
	memset(extents, 0, sizeof(*extents));
	extents->node = memory;
	extents->limit = limit;
	extents->fresh = 1;
}

static u32 priority(u32 index)
{
	return (u32)platform_mix(index);
}

static u32 node_new(struct extents *extents, u64 start, u64 end)
{
	u32 index = extents->free;

	if (index)
		extents->free = extents->node[index].left;
	else
		index = extents->fresh++;
	extents->runs++;
	extents->node[index] = (struct extents_node){ .start = start, .end = end };
	return index;
}

/* Divides a subtree into the runs before `start` and those from it on. */
static void split(struct extents *extents, u32 root, u64 start, u32 *before, u32 *behind)
{
	while (root) {
		struct extents_node *node = &extents->node[root];

		if (node->start < start) {
			*before = root;
			before = &node->right;
			root = node->right;
		} else {
			*behind = root;
			behind = &node->left;
			root = node->left;
		}
	}
	*before = EXTENTS_NONE;
	*behind = EXTENTS_NONE;
}

/* Joins two subtrees of which all runs of the first lie before those of the second; returns the root. */
static u32 join(struct extents *extents, u32 before, u32 behind)
{
	u32 root, *at = &root;

	while (before && behind) {
		if (priority(before) > priority(behind)) {
			*at = before;
			at = &extents->node[before].right;
			before = *at;
		} else {
			*at = behind;
			at = &extents->node[behind].left;
			behind = *at;
		}
	}
	*at = before ? before : behind;
	return root;
}

static void insert(struct extents *extents, u64 start, u64 end)
{
	u32 index = node_new(extents, start, end), rank = priority(index), *at = &extents->root;
	struct extents_node *node = &extents->node[index];

	while (*at && priority(*at) >= rank)
		at = start < extents->node[*at].start ? &extents->node[*at].left : &extents->node[*at].right;
	split(extents, *at, start, &node->left, &node->right);
	*at = index;
}

static void erase(struct extents *extents, u32 index)
{
	struct extents_node *node = &extents->node[index];
	u32 *at = &extents->root;

	while (*at != index)
		at = node->start < extents->node[*at].start ? &extents->node[*at].left : &extents->node[*at].right;
	*at = join(extents, node->left, node->right);
	node->left = extents->free;
	extents->free = index;
	extents->runs--;
}

static u32 first_behind(const struct extents *extents, u64 from)
{
	u32 at = extents->root, found = EXTENTS_NONE;

	while (at) {
		if (extents->node[at].end > from) {
			found = at;
			at = extents->node[at].left;
		} else {
			at = extents->node[at].right;
		}
	}
	return found;
}

bool extents_find(const struct extents *extents, u64 from, u64 *start, u64 *end)
{
	u32 index = first_behind(extents, from);

	if (!index)
		return false;
	*start = extents->node[index].start;
	*end = extents->node[index].end;
	return true;
}

bool extents_find_before(const struct extents *extents, u64 from, u64 *start, u64 *end)
{
	u32 at = extents->root, found = EXTENTS_NONE;

	while (at) {
		if (extents->node[at].start < from) {
			found = at;
			at = extents->node[at].right;
		} else {
			at = extents->node[at].left;
		}
	}
	if (!found)
		return false;
	*start = extents->node[found].start;
	*end = extents->node[found].end;
	return true;
}

u64 extents_add(struct extents *extents, u64 start, u64 end)
{
	/* One that ends where this starts touches it, too. */
	u32 keep = first_behind(extents, start ? start - 1 : 0), next;
	struct extents_node *node = &extents->node[keep];
	u64 held = extents->sectors, was;

	if (!keep || node->start > end) {
		insert(extents, start, end);
		extents->sectors += end - start;
		return end - start;
	}
	/* The first run that it meets grows; the order of the runs stays, because the runs that it swallows are erased first. */
	was = node->end - node->start;
	while ((next = first_behind(extents, node->end)) && extents->node[next].start <= end) {
		node->end = extents->node[next].end;
		was += extents->node[next].end - extents->node[next].start;
		erase(extents, next);
	}
	node->start = node->start < start ? node->start : start;
	node->end = platform_later(node->end, end);
	extents->sectors = held + (node->end - node->start) - was;
	return extents->sectors - held;
}

u64 extents_cut(struct extents *extents, u64 start, u64 end)
{
	u64 held = extents->sectors;
	u32 index;

	while ((index = first_behind(extents, start)) && extents->node[index].start < end) {
		struct extents_node *node = &extents->node[index];
		u64 first = node->start, last = node->end;

		if (first < start && last > end) {
			if (extents_full(extents))
				break;
			node->end = start;
			insert(extents, end, last);
			extents->sectors -= end - start;
			break;
		}
		if (first >= start && last <= end) {
			erase(extents, index);
			extents->sectors -= last - first;
		} else if (first < start) {
			node->end = start;
			extents->sectors -= last - start;
		} else {
			node->start = end;
			extents->sectors -= end - first;
		}
	}
	return held - extents->sectors;
}
