// The CPU counterpart of MLX's Metal and CUDA custom kernels: an MLX operation that runs a compiled
// function over a grid of threads, on all cores.
//
// It is built on the user's machine against the installed MLX (nerfmac/backend/build.py), because
// the C++ interface of libmlx changes even between patch releases.

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "mlx/backend/cpu/encoder.h"
#include "mlx/mlx.h"
#include "mlx/primitives.h"

namespace nb = nanobind;
namespace mx = mlx::core;
using namespace nb::literals;

// Runs the grid points begin <= index < end. arrays contains the data of the inputs, then of the
// outputs; shapes contains the shape of each input.
using KernelFunction = void (*)(
    void* const* arrays, const int* const* shapes, const uint32_t* begin, const uint32_t* end);

// Pause between two checks of a condition: it leaves the units of the core to other threads.
static inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits briefly for the condition and returns whether it is true. It does not sleep, because waking
// a thread takes the system as long as a short kernel takes to run.
template <typename Condition>
static bool happens_soon(Condition condition) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::microseconds(50);
  do {
    for (int i = 0; i < 64; ++i) {
      if (condition()) return true;
      relax();
    }
  } while (Clock::now() < end);
  return false;
}

// A fixed set of threads that process numbered pieces of work. The caller also processes pieces,
// and then waits only for threads that have started one.
class Workers {
 public:
  explicit Workers(int threads) {
    for (int i = 1; i < threads; ++i) std::thread([this] { serve(); }).detach();
    size_ = threads;
  }

  int size() const { return size_; }

  // Calls work(i) once for each 0 <= i < pieces and returns when all are done.
  void run(int pieces, const std::function<void(int)>& work) {
    std::lock_guard<std::mutex> one_caller(caller_);
    if (size_ == 1 || pieces == 1) {
      for (int i = 0; i < pieces; ++i) work(i);
      return;
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      work_ = &work;
      pieces_ = pieces;
      next_ = 0;
      is_open_ = true;
      ++generation_;
      if (asleep_ > 0) wake_.notify_all();
    }
    take_pieces();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_open_ = false;
    }
    const auto is_done = [this] { return busy_ == 0; };
    if (happens_soon(is_done)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, is_done);
  }

 private:
  void take_pieces() {
    for (int i = next_++; i < pieces_; i = next_++) (*work_)(i);
  }

  void serve() {
    uint64_t seen = 0;
    for (;;) {
      happens_soon([&] { return generation_ != seen; });
      {
        std::unique_lock<std::mutex> lock(mutex_);
        ++asleep_;
        wake_.wait(lock, [&] { return generation_ != seen; });
        --asleep_;
        seen = generation_;
        if (!is_open_) continue;
        ++busy_;
      }
      take_pieces();
      if (--busy_ == 0) {
        std::lock_guard<std::mutex> lock(mutex_);
        done_.notify_one();
      }
    }
  }

  int size_ = 1;
  std::mutex caller_, mutex_;
  std::condition_variable wake_, done_;
  const std::function<void(int)>* work_ = nullptr;
  int pieces_ = 0, asleep_ = 0;
  bool is_open_ = false;
  std::atomic<int> next_{0}, busy_{0};
  std::atomic<uint64_t> generation_{0};
};

// Never destroyed: its threads wait in it until the process ends.
static Workers* workers = nullptr;

using Grid = std::array<uint32_t, 3>;

// An input whose elements are not in row-major order, so that a launch needs a copy. An operation
// such as mx::contiguous would cost time for each of the 150 inputs of a training step.
struct Strided {
  size_t index, itemsize, bytes;
  mx::Shape shape;
  mx::Strides strides;

  void copy(const uint8_t* from, uint8_t*& to, size_t axis = 0) const {
    if (axis == shape.size()) {
      std::memcpy(to, from, itemsize);
      to += itemsize;
      return;
    }
    const int64_t stride = strides[axis] * static_cast<int64_t>(itemsize);
    for (int i = 0; i < shape[axis]; ++i) copy(from + i * stride, to, axis + 1);
  }
};

class CpuKernel : public mx::Primitive {
 public:
  CpuKernel(
      mx::Stream stream, std::string label, KernelFunction function,
      std::vector<mx::Shape> output_shapes, std::vector<mx::Dtype> output_dtypes, Grid grid,
      bool rows_own_outputs, std::optional<float> init_value)
      : mx::Primitive(stream), label_(std::move(label)), function_(function),
        output_shapes_(std::move(output_shapes)), output_dtypes_(std::move(output_dtypes)),
        grid_(grid), rows_own_outputs_(rows_own_outputs), init_value_(init_value) {}

  void eval_cpu(const std::vector<mx::array>& inputs, std::vector<mx::array>& outputs) override {
    std::vector<void*> arrays;
    std::vector<std::vector<int>> shapes;
    std::vector<std::pair<void*, size_t>> fills;
    auto& encoder = mx::cpu::get_command_encoder(stream());
    std::vector<Strided> strided;
    for (const auto& input : inputs) {
      encoder.set_input_array(input);
      if (!input.flags().row_contiguous) {
        strided.push_back({arrays.size(), input.itemsize(), input.nbytes(), input.shape(),
                           input.strides()});
      }
      arrays.push_back(const_cast<void*>(static_cast<const void*>(input.data<uint8_t>())));
      shapes.emplace_back(input.shape().begin(), input.shape().end());
    }
    for (auto& output : outputs) {
      output.set_data(mx::allocator::malloc(output.nbytes()));
      arrays.push_back(output.data<uint8_t>());
      // The only initial value in use is zero, and zero has all bits clear in every type.
      if (init_value_) fills.emplace_back(arrays.back(), output.nbytes());
    }
    for (auto& output : outputs) encoder.set_output_array(output);
    encoder.dispatch([arrays = std::move(arrays), shapes = std::move(shapes),
                      fills = std::move(fills), strided = std::move(strided),
                      function = function_, grid = grid_, rows = rows_own_outputs_]() mutable {
      std::vector<std::vector<uint8_t>> copies;
      for (const auto& each : strided) {
        copies.emplace_back(each.bytes);
        uint8_t* to = copies.back().data();
        each.copy(static_cast<const uint8_t*>(arrays[each.index]), to);
        arrays[each.index] = copies.back().data();
      }
      for (const auto& [data, bytes] : fills) clear(static_cast<uint8_t*>(data), bytes);
      std::vector<const int*> shape_pointers;
      for (const auto& shape : shapes) shape_pointers.push_back(shape.data());
      launch(function, arrays.data(), shape_pointers.data(), grid, rows);
    });
  }

  void eval_gpu(const std::vector<mx::array>&, std::vector<mx::array>&) override {
    throw std::runtime_error("[cpu_kernel] runs on the CPU only; choose it as the default device");
  }

  const char* name() const override { return label_.c_str(); }

  // Lets mx.compile merge two equal launches on the same inputs. It has compared one output of each
  // and assumes that the other outputs are equal too. Template arguments and types are part of the
  // function.
  bool is_equivalent(const mx::Primitive& other) const override {
    const auto& kernel = static_cast<const CpuKernel&>(other);
    return function_ == kernel.function_ && grid_ == kernel.grid_ &&
        output_shapes_ == kernel.output_shapes_ && output_dtypes_ == kernel.output_dtypes_ &&
        rows_own_outputs_ == kernel.rows_own_outputs_ && init_value_ == kernel.init_value_;
  }

 private:
  static void clear(uint8_t* data, size_t bytes) {
    constexpr size_t piece = 1 << 18;
    workers->run(static_cast<int>((bytes + piece - 1) / piece), [&](int i) {
      std::memset(data + i * piece, 0, std::min(piece, bytes - i * piece));
    });
  }

  static void launch(
      KernelFunction function, void* const* arrays, const int* const* shapes, Grid grid, bool rows) {
    // Accumulating kernels: a row (fixed y and z) is one piece, so only one thread writes the
    // outputs of the row. Other kernels: rows are divided further, into a few pieces per core.
    const uint32_t row_count = grid[1] * grid[2];
    const uint32_t cuts = rows ? 1 : std::min<uint32_t>(grid[0], 8 * workers->size());
    const uint32_t length = (grid[0] + cuts - 1) / cuts;
    workers->run(static_cast<int>(row_count * cuts), [&](int piece) {
      const uint32_t row = piece / cuts, begin_x = (piece % cuts) * length;
      const uint32_t end_x = std::min(begin_x + length, grid[0]);
      const uint32_t begin[3] = {begin_x, row % grid[1], row / grid[1]};
      const uint32_t end[3] = {end_x, begin[1] + 1, begin[2] + 1};
      if (begin_x < end_x) function(arrays, shapes, begin, end);
    });
  }

  std::string label_;
  KernelFunction function_;
  std::vector<mx::Shape> output_shapes_;
  std::vector<mx::Dtype> output_dtypes_;
  Grid grid_;
  bool rows_own_outputs_;
  std::optional<float> init_value_;
};

static std::vector<mx::array> launch(
    const std::string& label, uintptr_t function, const std::vector<mx::array>& inputs,
    const std::vector<std::vector<int>>& output_shapes, const std::vector<mx::Dtype>& output_dtypes,
    std::tuple<uint32_t, uint32_t, uint32_t> grid, bool rows_own_outputs,
    std::optional<float> init_value) {
  if (init_value && *init_value != 0.0f) {
    throw std::invalid_argument("[cpu_kernel] init_value is not 0; outputs start from zero or unset");
  }
  const auto stream = mx::default_stream(mx::Device(mx::Device::cpu));
  std::vector<mx::Shape> shapes;
  for (const auto& shape : output_shapes) shapes.emplace_back(shape.begin(), shape.end());
  const auto [x, y, z] = grid;
  auto kernel = std::make_shared<CpuKernel>(
      stream, label, reinterpret_cast<KernelFunction>(function), shapes, output_dtypes,
      Grid{x, y, z}, rows_own_outputs, init_value);
  return mx::array::make_arrays(std::move(shapes), output_dtypes, std::move(kernel), inputs);
}

NB_MODULE(NERFMAC_EXTENSION, module) {
  module.def("launch", &launch, "label"_a, "function"_a, "inputs"_a, "output_shapes"_a,
      "output_dtypes"_a, "grid"_a, "rows_own_outputs"_a, "init_value"_a);
  // Called once at the start. It rejects its array if the ABI of nanobind differs from MLX's.
  module.def("length", [](const mx::array& array) { return array.size(); }, "array"_a);
  module.def("start_workers", [](int threads) {
    if (!workers) workers = new Workers(threads);
#ifdef __GLIBC__
    // A step frees and allocates the same hundred megabytes again. If they returned to the system
    // each time, page faults would cost a fifth of the step; 32 MiB is the largest threshold
    // allowed.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_TOP_PAD, 64 << 20);
#endif
    return workers->size();
  }, "threads"_a);
}
