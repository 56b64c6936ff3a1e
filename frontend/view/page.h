// SPDX-License-Identifier: Apache-2.0
/* The page of html.c, before and after the data; page.c is written by embed.py. */
#ifndef ANFI_PAGE_H
#define ANFI_PAGE_H
#include <stddef.h>
extern const char anfi_page_head[], anfi_page_tail[];
extern const size_t anfi_page_head_len, anfi_page_tail_len;
#endif
