/* Which rserve this is; a part of rserve.h. */

#ifndef RSERVE_VERSION_H_
#define RSERVE_VERSION_H_

#include <stdint.h>

#if defined(__GNUC__)
#define RSERVE_API __attribute__((visibility("default")))
#else
#define RSERVE_API
#endif

#define RSERVE_VERSION_MAJOR 0
#define RSERVE_VERSION_MINOR 2
#define RSERVE_VERSION_PATCH 0
#define RSERVE_ABI_MAJOR 0
#define RSERVE_ABI_MINOR 2

#ifdef __cplusplus
extern "C" {
#endif

/** The library's version, "major.minor.patch". Static storage. [any-thread] @since 0.1 */
RSERVE_API const char *rserve_version(void);

/** RSERVE_ABI_MAJOR << 16 | RSERVE_ABI_MINOR of the library. [any-thread] @since 0.1 */
RSERVE_API uint32_t rserve_abi_version(void);

#ifdef __cplusplus
}
#endif

#endif /* RSERVE_VERSION_H_ */
