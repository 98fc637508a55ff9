# Header comments as doxygen wants them.
1s,^/\* ,/** @file\n * @verbatim\n ,
1,/^ \*\/$/s,^ \*/$, @endverbatim\n */,
s,^( *[^ /*].*[^ ]) +/\* ([^*]),\1 /**< \2,
