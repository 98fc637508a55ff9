// Expressions, by recursive descent: the parser of statements calls these where a tag has one.
//
// Each takes as many of the reader's tokens as belong to the expression. What cannot be parsed is
// the reader's fault to keep: INVALID_ARGUMENT for what is no expression, UNIMPLEMENTED for what
// Jinja has and the renderer does not (filters, tests and methods by name, too), with the line.
// After a fault the result may be null, here or anywhere in the tree.
//
// Trees are bounded in depth, beside the reader's own limit: one whose side is a long chain,
// "a + a + a", is deep without anything being nested in the source.

#ifndef RSERVE_SRC_MODEL_SPEC_JINJA_EXPRESSION_PARSER_H_
#define RSERVE_SRC_MODEL_SPEC_JINJA_EXPRESSION_PARSER_H_

#include "src/model/spec/jinja/syntax.h"
#include "src/model/spec/jinja/token_reader.h"

namespace rserve::model::jinja {

// One expression; a comma ends it.
ExpressionPtr ParseExpression(TokenReader* tokens);

// One expression, or several with commas between them: a list.
ExpressionPtr ParseTuple(TokenReader* tokens);

// One expression that is not a conditional one: an "if" behind it is left to the caller.
ExpressionPtr ParseUnconditional(TokenReader* tokens);

}  // namespace rserve::model::jinja

#endif  // RSERVE_SRC_MODEL_SPEC_JINJA_EXPRESSION_PARSER_H_
