// The page at /: the last requests as bars of encode and prefill.

#ifndef RSERVE_EXAMPLES_SERVER_STATUS_PAGE_H_
#define RSERVE_EXAMPLES_SERVER_STATUS_PAGE_H_

namespace server {

extern const char kStatusPage[];

}  // namespace server

#endif  // RSERVE_EXAMPLES_SERVER_STATUS_PAGE_H_
