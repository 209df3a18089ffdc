"""Object stores for tests: of obstore, on a local folder or in memory, with pyarrow.fs looking at the same objects."""

import io
import os

import obstore
import obstore.store
import pyarrow as pa
import pyarrow.fs as fs

from morphspark.durable.store import ObjectStore


def in_folder(folder):
    os.makedirs(folder, exist_ok=True)
    files = fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem())
    return ObjectStore(f"test://{folder}", files, obstore.store.LocalStore(str(folder)))


def in_memory(objects=None):
    objects = objects or obstore.store.MemoryStore()
    return ObjectStore("memory://state", fs.PyFileSystem(_Objects(objects)), objects)


class _Objects(fs.FileSystemHandler):
    """As much of a file system as a state directory asks of an object store."""

    def __init__(self, objects):
        self.objects = objects

    def get_type_name(self):
        return "objects"

    def normalize_path(self, path):
        return path

    def create_dir(self, path, recursive):
        pass

    def delete_file(self, path):
        obstore.head(self.objects, path)  # a delete of nothing is no error there
        obstore.delete(self.objects, path)

    def get_file_info_selector(self, selector):
        found = obstore.list(self.objects, selector.base_dir + "/").collect()
        return [fs.FileInfo(one["path"], fs.FileType.File, size=one["size"]) for one in found]

    def open_input_file(self, path):
        return pa.BufferReader(bytes(obstore.get(self.objects, path).bytes()))

    def open_output_stream(self, path, metadata):
        return pa.PythonFile(_Upload(self.objects, path), mode="w")

    copy_file = delete_dir = delete_dir_contents = delete_root_dir_contents = get_file_info = move = None
    open_append_stream = open_input_stream = None


class _Upload(io.BytesIO):
    """An object that is there when it is closed."""

    def __init__(self, objects, path):
        super().__init__()
        self.objects, self.path = objects, path

    def close(self):
        if not self.closed:
            obstore.put(self.objects, self.path, self.getvalue())
        super().close()
