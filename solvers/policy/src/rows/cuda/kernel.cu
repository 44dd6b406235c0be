// The reduction over compressed rows on a GPU, compiled at run time.
//
// The numbers of an item are read in packs of 16 bytes if its width allows. A block has one thread per pack and as many
// rows as fit, so that neighbouring threads read neighbouring packs. A thread reduces its pack of a row in the order of
// the entries. Nothing is atomic, so every run gives the same bits.

template <typename T, int N> struct alignas(N * sizeof(T)) Pack {
  T at[N];
};

struct Sum {
  static __device__ double none() { return 0.0; }
  template <typename T> static __device__ T join(T sum, T item) { return sum + item; }
};

struct Max {
  static __device__ double none() { return __longlong_as_double(0xfff0000000000000LL); }
  // As on the CPU, NaN is not the maximum.
  template <typename T> static __device__ T join(T max, T item) { return max < item || max != max ? item : max; }
};

template <typename Join, typename T, int N>
__device__ void reduce(const unsigned *__restrict__ offsets, const unsigned *__restrict__ indices,
                       const T *__restrict__ x, T *__restrict__ out, unsigned rows, unsigned width) {
  const unsigned packs = width / N;
  const Pack<T, N> *items = reinterpret_cast<const Pack<T, N> *>(x);
  Pack<T, N> *results = reinterpret_cast<Pack<T, N> *>(out);
  const size_t step = size_t(gridDim.x) * blockDim.y;
  for (size_t row = size_t(blockIdx.x) * blockDim.y + threadIdx.y; row < rows; row += step) {
    const unsigned begin = offsets[row];
    const unsigned end = offsets[row + 1];
    for (unsigned pack = threadIdx.x; pack < packs; pack += blockDim.x) {
      Pack<T, N> result;
#pragma unroll
      for (int k = 0; k < N; ++k) result.at[k] = T(Join::none());
      // Four loads are in flight at a time; they are joined in order.
#pragma unroll 4
      for (unsigned entry = begin; entry < end; ++entry) {
        const Pack<T, N> item = items[size_t(indices[entry]) * packs + pack];
#pragma unroll
        for (int k = 0; k < N; ++k) result.at[k] = Join::join(result.at[k], item.at[k]);
      }
      results[row * packs + pack] = result;
    }
  }
}

#define KERNEL(NAME, JOIN, TYPE, LANES)                                                                               \
  extern "C" __global__ void NAME(const unsigned *offsets, const unsigned *indices, const TYPE *x, TYPE *out,         \
                                  unsigned rows, unsigned width) {                                                   \
    reduce<JOIN, TYPE, LANES>(offsets, indices, x, out, rows, width);                                                \
  }

KERNEL(sum_f32_packed, Sum, float, 4)
KERNEL(sum_f32_single, Sum, float, 1)
KERNEL(sum_f64_packed, Sum, double, 2)
KERNEL(sum_f64_single, Sum, double, 1)
KERNEL(max_f32_packed, Max, float, 4)
KERNEL(max_f32_single, Max, float, 1)
KERNEL(max_f64_packed, Max, double, 2)
KERNEL(max_f64_single, Max, double, 1)
