package shm

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// objectName is what /proc shows of a region; it names no file.
const objectName = "rejoin-collective"

// sealed is what a region must be: of one size for good, or reading it could
// fail with SIGBUS.
const sealed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// createRegion makes and maps an anonymous memory object.
func createRegion() (r *region, file int, err error) {
	file, err = unix.MemfdCreate(objectName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		file, err = unix.MemfdCreate(objectName, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("memfd_create: %w", err)
	}
	err = unix.Ftruncate(file, RegionBytes)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(file), unix.F_ADD_SEALS, sealed)
	}
	if err == nil {
		r, err = mapRegion(file, unix.PROT_READ|unix.PROT_WRITE)
	}
	if err != nil {
		closeFile(file)
		return nil, 0, fmt.Errorf("%d bytes of shared memory: %w", RegionBytes, err)
	}
	return r, file, nil
}

// openRegion maps another process' region, if it is one and holds the token.
// The name is looked at first: opening whatever else is there could do harm.
func openRegion(o offer) (*region, error) {
	path := fmt.Sprintf("/proc/%d/fd/%d", o.pid, o.file)
	name, err := os.Readlink(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrOffer, err)
	}
	if !strings.HasPrefix(name, "/memfd:"+objectName) {
		return nil, fmt.Errorf("%w: %s is %s", ErrOffer, path, name)
	}
	file, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrOffer, path, err)
	}
	defer closeFile(file)
	if err := checkObject(file); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrOffer, path, err)
	}
	r, err := mapRegion(file, unix.PROT_READ)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrOffer, path, err)
	}
	if string(r.header[:len(o.token)]) != o.token {
		r.unmap()
		return nil, fmt.Errorf("%w: %s does not hold the token of the offer", ErrOffer, path)
	}
	return r, nil
}

// checkObject checks that a region can be read to its end, always.
func checkObject(file int) error {
	seals, err := unix.FcntlInt(uintptr(file), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("reading its seals: %w", err)
	}
	if seals&sealed != sealed {
		return fmt.Errorf("its size is not sealed (seals %#x, expected %#x)", seals, sealed)
	}
	var s unix.Stat_t
	if err := unix.Fstat(file, &s); err != nil {
		return err
	}
	if s.Size != RegionBytes {
		return fmt.Errorf("it has %d bytes, expected %d", s.Size, RegionBytes)
	}
	return nil
}

// mapRegion maps the header to read and write, and the slots as slotAccess says.
func mapRegion(file, slotAccess int) (*region, error) {
	header, err := unix.Mmap(file, 0, headerBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	slots, err := unix.Mmap(file, headerBytes, Slots*SlotBytes, slotAccess, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(header) // only just mapped
		return nil, fmt.Errorf("mmap: %w", err)
	}
	r := &region{header: header, slots: slots}
	r.unmap = func() { // neither fails on what Mmap returned
		_ = unix.Munmap(slots)
		_ = unix.Munmap(header)
	}
	return r, nil
}

func closeFile(file int) { _ = unix.Close(file) } // nothing is written through it
