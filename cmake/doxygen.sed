# Header comments as doxygen wants them: a head of one line is a sentence, a longer one is verbatim.
1s,^/\* (.*) \*/$,/** @file\n * \1 */,
1s,^/\* ,/** @file\n * @verbatim\n ,
/@verbatim/,/^ \*\/$/s,^ \*/$, @endverbatim\n */,
s,^( *[^ /*].*[^ ]) +/\* ([^*]),\1 /**< \2,
