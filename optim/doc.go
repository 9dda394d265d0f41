// Package optim is torch's SGD, Adam and AdamW on float32 parameters, the
// learning rate schedules of Hugging Face's Trainer and torch's StepLR,
// MultiStepLR, CosineAnnealingLR and ReduceLROnPlateau, gradient clipping, and
// both of torch's state dicts, optimizer.pt and scheduler.pt, read and written.
//
// It promises:
//
//   - [Adam.Step] and [SGD.Step] follow torch 2.14's order of operations, on
//     every machine. Against torch on AVX2 the bits are equal; see below where
//     torch itself varies.
//   - A state dict is rebuilt entirely or not at all: LoadStateDict changes
//     nothing if it returns an error. State goes to the parameter it is of, by
//     name or by group, order and shape, or nowhere.
//   - What a state dict holds and this package does not know is written back.
//   - Learning rates are the float64 that Python computes with a correctly
//     rounded cosine and pow (see [NewSchedule]).
//
// # Where torch varies
//
// Results are those of torch 2.14 on AVX2, bit for bit, for Adam and AdamW,
// with and without AMSGrad and maximize, and SGD with all its options, for
// tensor lengths from 1 to 37 in the tests. torch's own bits depend on its build
// and the CPU, in the last place, here:
//
//	fused, exp_avg_sq (SGD: the      its compiler contracts the products in another
//	momentum buffer) of the last     order there; other builds do for fewer elements
//	len mod 8 elements
//	single-tensor and foreach        with MKL (PyPI wheels), square roots are MKL's,
//	                                 one in five off by one unit in the last place
//	gradient norm                    lanes are as wide as the vectors: 8 on AVX2
//	cosine schedules                 glibc misrounds one argument in a thousand;
//	                                 CosineAnnealingLR carries that along, in 41
//	                                 of the waves of T_max 1 to 300
//
// It reads and writes no file, averages no gradients over ranks and starts no
// goroutine. The model owns parameters and gradients; an optimizer owns its
// state. Nothing here is safe for concurrent use.
package optim
