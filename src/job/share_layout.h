// The labels and features of a job whose distributions are compared between workers.
#pragma once

#include "base/metrics/share.h"
#include "compute/nn/model.h"
#include "stream/schema.h"

namespace leat::job {

// The labels of the model, and the first fields of the schema that are one number, category or id, at most
// ShareLayout::kMaxFeatures. Lists, texts, images and other arrays are left out. A number with a period is
// two features: NAME.sin and NAME.cos.
metrics::ShareLayout ShareLayoutOf(const stream::Schema& schema, const nn::Model& model);

}  // namespace leat::job
