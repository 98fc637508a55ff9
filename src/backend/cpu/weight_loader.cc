#include "src/backend/cpu/weight_loader.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace rserve::cpu {

namespace {

static_assert(static_cast<int>(kernels::WeightType::kF32) == static_cast<int>(model::DType::kF32));
static_assert(static_cast<int>(kernels::WeightType::kF16) == static_cast<int>(model::DType::kF16));
static_assert(static_cast<int>(kernels::WeightType::kBF16) ==
              static_cast<int>(model::DType::kBF16));

std::string NameOf(model::DType dtype) { return std::string(model::DTypeName(dtype)); }

kernels::WeightType TypeOf(model::DType dtype) { return static_cast<kernels::WeightType>(dtype); }

int64_t Bytes(const model::TensorView& view) {
  return view.elements * model::DTypeSize(view.dtype);
}

backend::Share AllOr(const backend::Share& share, int64_t all) {
  return share.count < 0 ? backend::Share{0, all} : share;
}

// The first of `columns` in each of the rows of a tensor that is k wide.
void AppendRows(const model::TensorView& view, const backend::Share& rows, int64_t k,
                const backend::Share& columns, std::vector<const uint8_t*>* out) {
  const int64_t size = model::DTypeSize(view.dtype);
  for (int64_t r = rows.begin; r < rows.begin + rows.count; ++r) {
    out->push_back(view.data + (r * k + columns.begin) * size);
  }
}

}  // namespace

absl::StatusOr<std::string> FindPrefix(const model::Checkpoint& checkpoint,
                                       const std::vector<std::string>& prefixes,
                                       const std::string& name) {
  for (const std::string& prefix : prefixes) {
    if (checkpoint.Has(prefix + name)) return prefix;
  }
  return absl::NotFoundError(absl::StrCat("the checkpoint has no tensor ", name,
                                          " under any of the prefixes ",
                                          absl::StrJoin(prefixes, ", ")));
}

WeightLoader::WeightLoader(const model::Checkpoint& checkpoint, const kernels::KernelTable& isa,
                           const LoadOptions& options)
    : checkpoint_(checkpoint), isa_(isa), options_(options), compute_(isa, options.pool) {}

bool WeightLoader::Get(const std::string& name, const std::vector<int64_t>& shape,
                       model::TensorView* view) {
  if (!status_.ok()) return false;
  absl::StatusOr<model::TensorView> found = checkpoint_.Get(name, shape);
  if (!found.ok()) {
    status_ = found.status();
    return false;
  }
  *view = *std::move(found);
  return true;
}

void WeightLoader::Done(const model::TensorView& view) {
  done_bytes_ += Bytes(view);
  // It has its copy; the pages of the file would be counted as this process's memory.
  checkpoint_.Release(view);
  if (options_.progress) options_.progress(done_bytes_, checkpoint_.total_bytes());
}

void WeightLoader::Vector(const std::string& name, int64_t size, std::vector<float>* out,
                          backend::Share share) {
  model::TensorView view;
  if (!Get(name, {size}, &view)) return;
  share = AllOr(share, size);
  out->resize(static_cast<size_t>(share.count));
  model::WidenToF32(view, share.begin, share.count, out->data());
  packed_bytes_ += share.count * int64_t{sizeof(float)};
  Done(view);
}

void WeightLoader::Pack(kernels::WeightType type, int64_t k,
                        const std::vector<const uint8_t*>& rows,
                        const std::vector<const uint8_t*>& up_rows, Precision precision,
                        Linear* out) {
  const int64_t n = static_cast<int64_t>(rows.size());
  const bool paired = !up_rows.empty();
  const kernels::WeightType source = type;
  if (precision == Precision::kAsAsked && options_.weights == WeightFormat::kInt8) {
    type = kernels::WeightType::kInt8;
  }
  const int64_t bytes = kernels::PackedBytes(isa_, type, n, k, paired);
  out->storage = AlignedBytes(bytes);
  out->weight = {out->storage.data(), type, n, k, paired};
  packed_bytes_ += bytes;
  const int64_t panels = kernels::PackedPanels(isa_, n, paired);
  compute_.Tasks(panels, [&](int64_t panel, float*) {
    const void* panel_rows[kernels::kMaxPanelWidth];
    for (int slot = 0; slot < isa_.nr; ++slot) {
      bool up = false;
      const int64_t column = kernels::PanelColumn(isa_, n, paired, panel, slot, &up);
      panel_rows[slot] = column < 0 ? nullptr : (up ? up_rows : rows)[static_cast<size_t>(column)];
    }
    if (type != kernels::WeightType::kInt8) {
      kernels::PackPanel(isa_, type, k, panel, panel_rows, out->storage.data());
      return;
    }
    std::vector<float> scratch(static_cast<size_t>(2 * k));
    kernels::PackInt8Panel(isa_, source, k, panels, panel, panel_rows, scratch.data(),
                           out->storage.data());
  });
}

void WeightLoader::Matrix(const std::vector<MatrixSource>& sources, int64_t k, bool has_bias,
                          Linear* out, Precision precision,
                          const std::vector<int64_t>& shape_tail, backend::Share columns) {
  columns = AllOr(columns, k);
  std::vector<const uint8_t*> rows;
  std::vector<model::TensorView> views(sources.size());
  for (size_t i = 0; i < sources.size(); ++i) {
    std::vector<int64_t> shape = {sources[i].rows};
    if (shape_tail.empty()) {
      shape.push_back(k);
    } else {
      shape.insert(shape.end(), shape_tail.begin(), shape_tail.end());
    }
    if (!Get(absl::StrCat(sources[i].name, ".weight"), shape, &views[i])) return;
    if (views[i].dtype != views[0].dtype) {
      status_ = absl::InvalidArgumentError(absl::StrCat(
          "tensor ", sources[i].name, ".weight has dtype ", NameOf(views[i].dtype), " but ",
          sources[0].name, ".weight, which it is joined with, has ", NameOf(views[0].dtype)));
      return;
    }
    AppendRows(views[i], AllOr(sources[i].share, sources[i].rows), k, columns, &rows);
  }
  Pack(TypeOf(views[0].dtype), columns.count, rows, {}, precision, out);
  for (const model::TensorView& view : views) Done(view);
  if (!has_bias) return;
  for (const MatrixSource& source : sources) {
    std::vector<float> bias;
    Vector(absl::StrCat(source.name, ".bias"), source.rows, &bias, source.share);
    out->bias.insert(out->bias.end(), bias.begin(), bias.end());
  }
}

void WeightLoader::Pair(const std::string& gate, const std::string& up, int64_t rows,
                        backend::Share share, int64_t k, bool has_bias, Linear* out) {
  model::TensorView gate_view, up_view;
  if (!Get(absl::StrCat(gate, ".weight"), {rows, k}, &gate_view)) return;
  if (!Get(absl::StrCat(up, ".weight"), {rows, k}, &up_view)) return;
  if (gate_view.dtype != up_view.dtype) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat("tensor ", up, ".weight has dtype ", NameOf(up_view.dtype), " but ", gate,
                     ".weight, which it is joined with, has ", NameOf(gate_view.dtype)));
    return;
  }
  std::vector<const uint8_t*> gate_rows, up_rows;
  AppendRows(gate_view, share, k, {0, k}, &gate_rows);
  AppendRows(up_view, share, k, {0, k}, &up_rows);
  Pack(TypeOf(gate_view.dtype), k, gate_rows, up_rows, Precision::kAsAsked, out);
  Done(gate_view);
  Done(up_view);
  if (!has_bias) return;
  Vector(absl::StrCat(gate, ".bias"), rows, &out->bias, share);
  Vector(absl::StrCat(up, ".bias"), rows, &out->bias_up, share);
}

void WeightLoader::Raw(const std::string& name, int64_t rows, int64_t k, AlignedBytes* out,
                       kernels::WeightType* type) {
  model::TensorView view;
  if (!Get(name, {rows, k}, &view)) return;
  *out = AlignedBytes(Bytes(view));
  *type = TypeOf(view.dtype);
  std::memcpy(out->data(), view.data, static_cast<size_t>(Bytes(view)));
  packed_bytes_ += Bytes(view);
  Done(view);
}

}  // namespace rserve::cpu
